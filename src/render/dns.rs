//! CoreDNS and the caches before it.

use askama::Template;

use super::filters;

/// A domain that is asked elsewhere.
pub struct Zone {
    /// The domain.
    pub name: String,
    /// `address:port` of each of its servers.
    pub servers: Vec<String>,
}

/// CoreDNS' own configuration (<https://coredns.io/manual/configuration/>).
#[derive(Template)]
#[template(path = "dns/coredns.Corefile")]
pub struct Corefile {
    /// DNS domain of services.
    pub domain: String,
    /// Who is asked for names outside, or a resolv.conf that names them; nobody where empty.
    pub forward: Vec<String>,
    /// Domains that are asked elsewhere.
    pub zones: Vec<Zone>,
}

/// The ConfigMap with a Corefile.
#[derive(Template)]
#[template(path = "dns/corefile.yaml")]
pub struct CorefileMap {
    /// The Corefile.
    pub corefile: String,
}

/// All of CoreDNS, the ConfigMap included.
#[derive(Template)]
#[template(path = "dns/coredns.yaml")]
pub struct CoreDns {
    /// The Corefile.
    pub corefile: String,
    /// CoreDNS' image.
    pub image: String,
    /// How many pods.
    pub replicas: u32,
    /// The DNS service's address.
    pub dns_address: String,
}

/// The configuration of the caches.
#[derive(Template)]
#[template(path = "dns/node-local.Corefile")]
pub struct NodeLocalCorefile {
    /// DNS domain of services.
    pub domain: String,
    /// Where the cache listens.
    pub address: String,
    /// `address:port` that tells whether it lives.
    pub health: String,
    /// Who knows the cluster's names: the DNS service.
    pub coredns: String,
    /// Who is asked for all other names. Never empty.
    pub forward: Vec<String>,
    /// Domains that are asked elsewhere.
    pub zones: Vec<Zone>,
}

/// NodeLocal DNSCache.
#[derive(Template)]
#[template(path = "dns/node-local.yaml")]
pub struct NodeLocal {
    /// Its Corefile.
    pub corefile: String,
    /// The cache's image.
    pub image: String,
    /// Where it listens.
    pub address: String,
    /// Whether it makes the interface with the address.
    pub makes_interface: bool,
}

/// `/etc/systemd/system/kubexm-dns-address.service`.
#[derive(Template)]
#[template(path = "dns/kubexm-dns-address.service")]
pub struct CacheAddress {
    /// `address/prefix`.
    pub address: String,
}
