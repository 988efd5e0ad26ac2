//! `spec.network`.

use std::net::IpAddr;

use ipnet::IpNet;

/// `spec.network`.
#[derive(Debug, Clone)]
pub struct Network {
    /// The CNI.
    pub plugin: NetworkPlugin,
    /// Pod addresses, as in `10.244.0.0/16`.
    pub pod_cidr: IpNet,
    /// Service addresses, as in `10.96.0.0/12`.
    pub service_cidr: IpNet,
    /// The DNS service's address: the tenth of `service_cidr`.
    pub dns_address: IpAddr,
}

/// A network plugin that this version can install.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPlugin {
    /// flannel.
    Flannel(FlannelBackend),
    /// Calico.
    Calico(Calico),
    /// Cilium.
    Cilium(Cilium),
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

/// Calico's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calico {
    /// How packets go from node to node.
    pub encapsulation: Encapsulation,
    /// Bytes of a pod's largest packet; `None` leaves it to Calico to find out.
    pub mtu: Option<u16>,
}

/// Cilium's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cilium {
    /// How packets go from node to node.
    pub routing: CiliumRouting,
    /// Bytes of a pod's largest packet; `None` leaves it to Cilium to find out.
    pub mtu: Option<u16>,
}

/// How Cilium carries packets from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CiliumRouting {
    /// VXLAN: works over any network.
    Vxlan,
    /// Geneve: works over any network.
    Geneve,
    /// Plain routes: all hosts on one layer-2 network.
    Native,
}

impl CiliumRouting {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Vxlan, Self::Geneve, Self::Native];

    /// Its name in `cluster.yaml`; of a tunnel, Cilium's own, too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Native => "native",
        }
    }
}

/// How Calico carries packets from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encapsulation {
    /// VXLAN: works over any network.
    Vxlan,
    /// IP in IP, with BGP between nodes.
    Ipip,
    /// Plain routes, with BGP between nodes: all hosts on one layer-2 network, or routers that
    /// speak BGP.
    None,
}

impl NetworkPlugin {
    /// Its name in `cluster.yaml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flannel(_) => "flannel",
            Self::Calico(_) => "calico",
            Self::Cilium(_) => "cilium",
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
