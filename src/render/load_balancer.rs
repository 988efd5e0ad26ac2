//! What stands before the API servers.

use askama::Template;

use super::filters;

/// An API server.
#[derive(Clone)]
pub struct Server {
    /// The control plane's name.
    pub name: String,
    /// `address:port`.
    pub address: String,
}

/// Unit of a proxy.
#[derive(Template)]
#[template(path = "load-balancer/proxy.service")]
pub struct ProxyService {
    /// The program's name for people.
    pub title: String,
    /// Program and arguments.
    pub command: String,
    /// Signal that makes it read its configuration again without cutting connections.
    pub reload_signal: &'static str,
    /// Its folder under `/run`.
    pub run: String,
}

/// Static pod of a proxy.
#[derive(Template)]
#[template(path = "load-balancer/proxy-pod.yaml")]
pub struct ProxyPod {
    /// The pod's name.
    pub name: String,
    /// The container's name.
    pub proxy: &'static str,
    /// Its image.
    pub image: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Digest of its configuration.
    pub configuration: String,
    /// Folder of its configuration.
    pub folder: String,
    /// The CA's file, where it wants one.
    pub ca: Option<String>,
    /// The address that it listens on.
    pub listen: String,
    /// The port that it listens on.
    pub port: u16,
}

/// keepalived's configuration.
#[derive(Template)]
#[template(path = "load-balancer/keepalived.conf")]
pub struct Keepalived {
    /// This host's name.
    pub host: String,
    /// The interface that the address comes up on.
    pub interface: String,
    /// VRRP's number of the group, 1 to 255.
    pub virtual_router_id: u8,
    /// This host's address.
    pub source: String,
    /// The other hosts' addresses.
    pub peers: Vec<String>,
    /// The address to hold, with its prefix.
    pub address: String,
    /// The check's program.
    pub check: String,
}

/// keepalived's check of the proxy.
#[derive(Template)]
#[template(path = "load-balancer/check.sh")]
pub struct Check {
    /// Port of the proxy's health check.
    pub port: u16,
}

/// keepalived's unit.
#[derive(Template)]
#[template(path = "load-balancer/keepalived.service")]
pub struct KeepalivedService {
    /// The program.
    pub binary: String,
    /// Its configuration file.
    pub config: String,
    /// Its folder under `/run`.
    pub run: String,
    /// The proxy's unit.
    pub proxy: String,
}
