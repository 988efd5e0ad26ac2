//! `spec.network`.

use std::net::IpAddr;

use ipnet::IpNet;

/// `spec.network`.
#[derive(Debug, Clone)]
pub struct Network {
    pub plugin: NetworkPlugin,
    /// Network of the pods, as in `10.244.0.0/16`.
    pub pod_cidr: IpNet,
    /// Network of the services, as in `10.96.0.0/12`.
    pub service_cidr: IpNet,
    /// Address of the DNS service: the tenth of `service_cidr`.
    pub dns_address: IpAddr,
}

/// A network plugin with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPlugin {
    Flannel(FlannelBackend),
    Calico(Calico),
    Cilium(Cilium),
    /// A bridge on each node, with routes to the pods of other nodes. All hosts are on one layer-2 network.
    Bridge,
    /// No plugin: nodes stay NotReady until the user installs one.
    None,
}

/// How flannel sends packets to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlannelBackend {
    /// VXLAN, over any network.
    Vxlan,
    /// Plain routes; all hosts are on one layer-2 network.
    HostGw,
}

/// Settings of Calico.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calico {
    pub encapsulation: Encapsulation,
    /// MTU of pods in bytes; `None` if Calico detects it.
    pub mtu: Option<u16>,
}

/// Settings of Cilium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cilium {
    pub routing: CiliumRouting,
    /// MTU of pods in bytes; `None` if Cilium detects it.
    pub mtu: Option<u16>,
}

/// How Cilium sends packets to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CiliumRouting {
    /// VXLAN, over any network.
    Vxlan,
    /// Geneve, over any network.
    Geneve,
    /// Plain routes; all hosts are on one layer-2 network.
    Native,
}

impl CiliumRouting {
    pub const ALL: [Self; 3] = [Self::Vxlan, Self::Geneve, Self::Native];

    /// Returns the name in cluster files. For tunnels it is also the name that Cilium uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Native => "native",
        }
    }
}

/// How Calico sends packets to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encapsulation {
    /// VXLAN, over any network.
    Vxlan,
    /// IP in IP, with BGP between nodes.
    Ipip,
    /// Plain routes, with BGP between nodes. All hosts are on one layer-2 network, or the routers use BGP.
    None,
}

impl Encapsulation {
    /// Returns the name in cluster files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Ipip => "ipip",
            Self::None => "none",
        }
    }
}

impl NetworkPlugin {
    /// Returns the name in cluster files.
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
    /// Returns the name that flannel uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::HostGw => "host-gw",
        }
    }
}
