//! Network plugins.

use askama::Template;

use super::filters;

/// flannel's manifest.
#[derive(Template)]
#[template(path = "network/flannel.yaml")]
pub struct Flannel {
    /// flanneld's image.
    pub image: String,
    /// The CNI plugin's image.
    pub plugin_image: String,
    /// `"Network": "10.244.0.0/16"`, or the IPv6 fields.
    pub address_family: String,
    /// Whether rules are nftables'.
    pub nftables: bool,
    /// `vxlan` or `host-gw`.
    pub backend: String,
}

/// `/etc/cni/net.d/10-kubexm-bridge.conflist`
/// (<https://www.cni.dev/plugins/current/main/bridge/>).
#[derive(Template)]
#[template(path = "network/bridge.json")]
pub struct Bridge {
    /// The node's own pod addresses.
    pub subnet: String,
}

/// The way to another node's pods.
pub struct Route {
    /// That node's pod addresses.
    pub subnet: String,
    /// That node.
    pub gateway: String,
}

/// `/etc/kubexm/pod-routes.sh`.
#[derive(Template)]
#[template(path = "network/pod-routes.sh")]
pub struct PodRoutes {
    /// 4 or 6.
    pub family: u8,
    /// `iptables` or `ip6tables`.
    pub iptables: &'static str,
    /// What marks the routes.
    pub protocol: u8,
    /// Addresses of all pods.
    pub pod_cidr: String,
    /// To every other node.
    pub routes: Vec<Route>,
}

/// `/etc/systemd/system/kubexm-pod-routes.service`.
#[derive(Template)]
#[template(path = "network/kubexm-pod-routes.service")]
pub struct PodRoutesService {
    /// The script.
    pub script: &'static str,
}
