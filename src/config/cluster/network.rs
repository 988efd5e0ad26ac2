//! `spec.network`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::{IpFamilies, IpFamily, OfFamily};
use crate::ports::{self, Port};

/// A prefix length for each address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixLengths {
    ipv4: u8,
    ipv6: u8,
}

impl PrefixLengths {
    /// Returns the length for a family.
    pub fn of(self, family: IpFamily) -> u8 {
        match family {
            IpFamily::V4 => self.ipv4,
            IpFamily::V6 => self.ipv6,
        }
    }
}

/// Default prefix lengths of the pod networks of nodes
/// (<https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/>).
pub const NODE_PREFIX: PrefixLengths = PrefixLengths { ipv4: 24, ipv6: 64 };

/// `spec.network`.
#[derive(Debug, Clone)]
pub struct Network {
    pub plugin: NetworkPlugin,
    /// Network of the pods, as in `10.244.0.0/16`, or one of each address family.
    pub pod_cidr: IpFamilies<IpNet>,
    /// Network of the services, as in `10.96.0.0/12`, or one of each address family, in the order of `pod_cidr`.
    pub service_cidr: IpFamilies<IpNet>,
    /// Address of the DNS service: the tenth of the first network of `service_cidr`.
    pub dns_address: IpAddr,
}

impl Network {
    /// Returns the address families of the cluster, the primary one first.
    pub fn families(&self) -> impl Iterator<Item = IpFamily> + use<> {
        self.pod_cidr.iter().map(|net| net.family())
    }

    /// Returns the first address of each service network. The one of the primary family is that of the service
    /// `kubernetes`.
    pub fn first_service_addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let networks = self.service_cidr.iter();
        networks.filter_map(|net| address_at(net, 1))
    }
}

/// Returns the address at this position in a network; `None` if the network is too small.
pub(crate) fn address_at(net: IpNet, position: u8) -> Option<IpAddr> {
    let address = match net.network() {
        IpAddr::V4(first) => {
            let number = u32::from(first).checked_add(u32::from(position))?;
            IpAddr::from(Ipv4Addr::from(number))
        }
        IpAddr::V6(first) => {
            let number = u128::from(first).checked_add(u128::from(position))?;
            IpAddr::from(Ipv6Addr::from(number))
        }
    };
    net.contains(&address).then_some(address)
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

    /// Returns the ports of nodes that the plugin uses on other nodes, as in its documentation.
    pub fn ports(self) -> Vec<Port> {
        let vxlan = Port::Udp(ports::VXLAN);
        let health = Port::Tcp(ports::CILIUM_HEALTH);
        let typha = Port::Tcp(ports::TYPHA);
        match self {
            Self::Flannel(FlannelBackend::Vxlan) => vec![vxlan],
            Self::Calico(calico) => match calico.encapsulation {
                Encapsulation::Vxlan => vec![Port::Udp(ports::VXLAN_STANDARD), typha],
                Encapsulation::Ipip | Encapsulation::None => vec![Port::Tcp(ports::BGP), typha],
            },
            Self::Cilium(cilium) => match cilium.routing {
                CiliumRouting::Vxlan => vec![vxlan, health],
                CiliumRouting::Geneve => vec![Port::Udp(ports::GENEVE), health],
                CiliumRouting::Native => vec![health],
            },
            Self::Flannel(FlannelBackend::HostGw) | Self::Bridge | Self::None => Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_within_their_network() {
        let at = |net: &str, position| {
            let address = address_at(net.parse().unwrap(), position);
            address.map(|address| address.to_string())
        };
        assert_eq!(at("10.96.0.0/12", 1).as_deref(), Some("10.96.0.1"));
        assert_eq!(at("fd00:1::/112", 10).as_deref(), Some("fd00:1::a"));
        assert_eq!(at("10.96.0.0/30", 10), None);
        assert_eq!(at("255.255.255.255/32", 1), None);
    }
}
