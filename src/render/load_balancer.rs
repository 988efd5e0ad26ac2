//! Configurations and units of load balancers for the API servers.

use std::collections::BTreeMap;

use askama::Template;

use super::filters;

/// An API server.
#[derive(Clone)]
pub struct Server {
    /// The name of the control plane host.
    pub name: String,
    /// `address:port`.
    pub address: String,
}

/// The unit of a proxy.
#[derive(Template)]
#[template(path = "load-balancer/proxy.service")]
pub struct ProxyService {
    /// The name of the program, for the description.
    pub title: String,
    /// The program and its arguments.
    pub command: String,
    /// The signal that makes it reload its configuration without closing connections.
    pub reload_signal: &'static str,
    /// The name of its directory in `/run`.
    pub run: String,
}

/// The static pod of a proxy.
#[derive(Template)]
#[template(path = "load-balancer/proxy-pod.yaml")]
pub struct ProxyPod {
    /// The pod's name.
    pub name: String,
    /// The container's name.
    pub proxy: &'static str,
    /// The image.
    pub image: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The digest of its configuration. A change of the digest makes the kubelet restart the pod.
    pub configuration: String,
    /// The directory of its configuration.
    pub folder: String,
    /// The address that it listens on.
    pub listen: String,
    /// The port that it listens on.
    pub port: u16,
}

/// keepalived's configuration.
#[derive(Template)]
#[template(path = "load-balancer/keepalived.conf")]
pub struct Keepalived {
    /// The name of this host.
    pub host: String,
    /// The network interface that gets the address.
    pub interface: String,
    /// The VRRP router id of the group, 1 to 255.
    pub virtual_router_id: u8,
    /// The address of this host.
    pub source: String,
    /// The addresses of the other hosts.
    pub peers: Vec<String>,
    /// The address of the endpoint with its prefix length.
    pub address: String,
    /// The health check with its arguments.
    pub check: String,
    /// The VRRP priority of this host.
    pub priority: u8,
    /// By how much the priority decreases while the proxy fails.
    pub decrease: u8,
    /// The password of VRRP version 2; `None` for version 3. Secret.
    pub password: Option<String>,
    /// Path of the script that keepalived runs when its state changes.
    pub notify: Option<String>,
    /// Text at the end.
    pub extra: String,
}

/// The unit of keepalived.
#[derive(Template)]
#[template(path = "load-balancer/keepalived.service")]
pub struct KeepalivedService {
    /// Path of keepalived.
    pub binary: String,
    /// Path of the configuration.
    pub config: String,
    /// The name of its directory in `/run`.
    pub run: String,
    /// The unit of the proxy.
    pub proxy: String,
}

/// HAProxy's configuration.
#[derive(Template)]
#[template(path = "load-balancer/haproxy.cfg")]
pub struct Haproxy {
    /// `address:port` that HAProxy listens on.
    pub bind: String,
    /// The API servers.
    pub servers: Vec<Server>,
    /// `address:port` of the health check; `None` without one.
    pub health: Option<String>,
    /// Whether HAProxy logs connections to its standard output.
    pub log: bool,
    /// Text at the end.
    pub extra: String,
}

/// nginx's configuration.
#[derive(Template)]
#[template(path = "load-balancer/nginx.conf")]
pub struct Nginx {
    /// A directory that nginx may write to.
    pub run: String,
    /// `address:port` that nginx listens on.
    pub bind: String,
    /// The API servers.
    pub servers: Vec<Server>,
    /// `address:port` of the health check; `None` without one.
    pub health: Option<String>,
    /// Text at the end.
    pub extra: String,
}

/// A static pod of kube-vip.
#[derive(Template)]
#[template(path = "load-balancer/kube-vip.yaml")]
pub struct KubeVip {
    /// The name of the pod.
    pub name: &'static str,
    /// The image.
    pub image: String,
    /// The address of the endpoint; `None` for the addresses of services.
    pub address: Option<String>,
    /// The prefix length of addresses: 32 or 128.
    pub prefix: u8,
    /// The API servers' port.
    pub port: u16,
    /// `name:port` of the host's API server. kube-vip only needs it without `address`.
    pub api_server: String,
    /// The network interface that gets addresses.
    pub interface: String,
    /// The kubeconfig on the host.
    pub kubeconfig: &'static str,
    /// The digest of the certificate in the kubeconfig; `None` for a kubeconfig of kubeadm.
    pub certificate: Option<String>,
    /// The pod's hosts file.
    pub hosts: String,
    /// `address:port` of its metrics.
    pub metrics: &'static str,
    /// Further environment variables.
    pub env: BTreeMap<String, String>,
}
