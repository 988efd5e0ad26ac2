//! Configurations of network plugins.

use askama::Template;

use super::filters;

/// flannel's manifest.
#[derive(Template)]
#[template(path = "network/flannel.yaml")]
pub struct Flannel {
    /// The image of flanneld.
    pub image: String,
    /// The image of the CNI plugin.
    pub plugin_image: String,
    /// The JSON fields of the pod networks: `"Network": "10.244.0.0/16"`, or those for IPv6, or both.
    pub address_families: String,
    /// Whether flannel creates rules with nftables instead of iptables.
    pub nftables: bool,
    /// `vxlan` or `host-gw`.
    pub backend: String,
    /// Whether nodes have an address of each family.
    pub is_dual: bool,
    /// Whether only root can read the configuration of the CNI plugins on the host.
    pub files_of_root: bool,
}

/// `/etc/cni/net.d/10-kubexm-bridge.conflist`
/// (<https://www.cni.dev/plugins/current/main/bridge/>).
#[derive(Template)]
#[template(path = "network/bridge.json")]
pub struct Bridge {
    /// The pod subnets of the node, one of each address family.
    pub subnets: Vec<String>,
}

/// A route to the pods of another node, in one address family.
pub struct Route {
    /// The pod subnet of that node.
    pub subnet: String,
    /// The address of that node.
    pub gateway: String,
}

/// `/etc/kubexm/pod-routes.conf`, which `pod-routes.sh` reads.
#[derive(Template)]
#[template(path = "network/pod-routes.conf")]
pub struct PodRoutes {
    /// The pod networks, one of each address family.
    pub pod_networks: Vec<String>,
    /// Routes to all other nodes.
    pub routes: Vec<Route>,
}

/// `/etc/systemd/system/kubexm-pod-routes.service`.
#[derive(Template)]
#[template(path = "network/kubexm-pod-routes.service")]
pub struct PodRoutesService {
    /// Path of `pod-routes.sh`.
    pub script: &'static str,
    /// Path of its configuration, [`PodRoutes`].
    pub config: &'static str,
}
