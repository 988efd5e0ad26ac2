//! `spec.dns`.

use std::net::IpAddr;

use kubexm_types::{HostName, NameServer};

/// `spec.dns`.
#[derive(Debug, Clone, Default)]
pub struct Dns {
    /// Number of replicas of CoreDNS; `None` for two.
    pub replicas: Option<u32>,
    /// Name servers for names outside the cluster; empty for those in the resolv.conf of the node.
    pub upstreams: Vec<NameServer>,
    /// Domains with other name servers.
    pub zones: Vec<Zone>,
    /// Names with fixed addresses.
    pub hosts: Vec<HostEntry>,
    /// Server blocks that are added to the Corefile of CoreDNS.
    pub extra_blocks: Vec<String>,
    /// A cache on each node, which answers the queries of its pods.
    pub node_local: Option<NodeLocal>,
}

/// Domains with their subdomains, which other name servers answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The domains. Never empty.
    pub names: Vec<HostName>,
    /// Never empty.
    pub servers: Vec<NameServer>,
    /// How long CoreDNS keeps answers, in seconds; 0 if it keeps none.
    pub cache_seconds: u32,
}

/// Names of an address, which CoreDNS answers itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    pub address: IpAddr,
    /// Never empty.
    pub names: Vec<HostName>,
}

/// NodeLocal DNSCache
/// (<https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLocal {
    /// Address of the cache on every node. No other program or host uses it.
    pub address: IpAddr,
    pub interface: CacheInterface,
}

/// The interface that has the address of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheInterface {
    /// A dummy device, which the cache creates and removes.
    Dummy,
    /// The loopback device, for kernels without dummy devices. A systemd unit adds the address.
    Loopback,
}
