//! `spec.dns`.

use std::net::IpAddr;

use kubexm_types::{HostName, NameServer};

/// `spec.dns`.
#[derive(Debug, Clone, Default)]
pub struct Dns {
    /// CoreDNS replicas; `None` leaves two.
    pub replicas: Option<u32>,
    /// Who is asked for names outside the cluster; those of the nodes' resolv.conf where empty.
    pub upstreams: Vec<NameServer>,
    /// Domains that have name servers of their own.
    pub zones: Vec<Zone>,
    /// A cache on each node, which pods ask instead of CoreDNS.
    pub node_local: Option<NodeLocal>,
}

/// A domain, with all below it, that is asked elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The domain.
    pub name: HostName,
    /// Who knows its names. Never empty.
    pub servers: Vec<NameServer>,
}

/// NodeLocal DNSCache
/// (<https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLocal {
    /// Where it listens, on every node: an address that nothing else in the network has.
    pub address: IpAddr,
    /// What carries the address.
    pub interface: CacheInterface,
}

/// The interface with the cache's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheInterface {
    /// A dummy device, which the cache itself makes and takes away.
    Dummy,
    /// The loopback device, for kernels without dummy devices; a unit adds the address.
    Loopback,
}
