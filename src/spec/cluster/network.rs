//! `spec.network`.

use std::net::IpAddr;

/// `spec.network`.
#[derive(Debug, Clone)]
pub struct Network {
    /// The CNI.
    pub plugin: NetworkPlugin,
    /// Pod addresses, as in `10.244.0.0/16`.
    pub pod_cidr: String,
    /// Service addresses, as in `10.96.0.0/12`.
    pub service_cidr: String,
    /// The DNS service's address: the tenth of `service_cidr`.
    pub dns_address: IpAddr,
}

/// A network plugin that this version can install.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPlugin {
    /// flannel.
    Flannel(FlannelBackend),
    /// Calico.
    Calico,
    /// Cilium.
    Cilium,
    /// A bridge on each node, with routes to the others' pods: all hosts on one layer-2 network.
    Bridge,
    /// None: nodes stay NotReady until the user installs one.
    None,
}

/// flannel's way to carry packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlannelBackend {
    /// VXLAN: works over any network.
    Vxlan,
    /// Plain routes: all hosts on one layer-2 network.
    HostGw,
}

impl NetworkPlugin {
    /// Its name in `cluster.yaml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flannel(_) => "flannel",
            Self::Calico => "calico",
            Self::Cilium => "cilium",
            Self::Bridge => "bridge",
            Self::None => "none",
        }
    }
}

impl FlannelBackend {
    /// flannel's own name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::HostGw => "host-gw",
        }
    }
}
