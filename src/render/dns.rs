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
