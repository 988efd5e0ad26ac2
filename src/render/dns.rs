//! CoreDNS, and the DNS caches of the nodes.

use askama::Template;

use super::filters;
use kubexm_config::ports;

/// Domains with their own name servers.
pub struct Zone {
    pub names: Vec<String>,
    /// How long answers are kept, in seconds; 0 if they are not kept.
    pub cache_seconds: u32,
    /// `address:port` of each name server.
    pub servers: Vec<String>,
}

/// The configuration of CoreDNS (<https://coredns.io/manual/configuration/>).
#[derive(Template)]
#[template(path = "dns/coredns.Corefile")]
pub struct Corefile {
    /// DNS domain of services.
    pub domain: String,
    /// Name servers for names outside of the cluster, or a `resolv.conf` with name servers. If the list is empty,
    /// CoreDNS resolves only names of the cluster.
    pub forward: Vec<String>,
    /// Domains with their own name servers.
    pub zones: Vec<Zone>,
    /// Names with fixed addresses, as lines of `/etc/hosts`.
    pub hosts: Vec<String>,
    /// Further server blocks.
    pub blocks: Vec<String>,
}

/// The ConfigMap with the Corefile.
#[derive(Template)]
#[template(path = "dns/corefile.yaml")]
pub struct CorefileMap {
    pub corefile: String,
}

/// All objects of CoreDNS, including the ConfigMap.
#[derive(Template)]
#[template(path = "dns/coredns.yaml")]
pub struct CoreDns {
    pub corefile: String,
    /// The image of CoreDNS.
    pub image: String,
    pub replicas: u32,
    /// The address of the DNS service.
    pub dns_address: String,
}

/// The Corefile of the caches.
#[derive(Template)]
#[template(path = "dns/node-local.Corefile")]
pub struct NodeLocalCorefile {
    /// DNS domain of services.
    pub domain: String,
    /// The address that the cache listens on.
    pub address: String,
    /// Further zones that CoreDNS answers itself.
    pub own_zones: Vec<String>,
    /// `address:port` of the health check.
    pub health: String,
    /// `address:port` of the metrics. The address is an environment variable.
    pub metrics: String,
    /// The address of the DNS service, which resolves the cluster's names.
    pub coredns: String,
    /// Name servers for all other names. Not empty.
    pub forward: Vec<String>,
    /// Domains with their own name servers.
    pub zones: Vec<Zone>,
    /// Names with fixed addresses, as lines of `/etc/hosts`.
    pub hosts: Vec<String>,
}

/// The objects of NodeLocal DNSCache.
#[derive(Template)]
#[template(path = "dns/node-local.yaml")]
pub struct NodeLocal {
    pub corefile: String,
    /// The image of the cache.
    pub image: String,
    /// The address that the cache listens on.
    pub address: String,
    /// Whether the cache creates the network interface with the address.
    pub makes_interface: bool,
}

/// `/etc/systemd/system/kubexm-dns-address.service`.
#[derive(Template)]
#[template(path = "dns/kubexm-dns-address.service")]
pub struct CacheAddress {
    /// The address with its prefix length.
    pub address: String,
}
