//! `spec.network`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::{IpFamilies, IpFamily, NetworkPlugin, OfFamily};

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

/// Returns networks of pods and services with the names of their fields.
pub(crate) fn ranges(
    pods: IpFamilies<IpNet>,
    services: IpFamilies<IpNet>,
) -> impl Iterator<Item = (&'static str, IpNet)> {
    let pods = pods.iter().map(|net| ("podCIDR", net));
    pods.chain(services.iter().map(|net| ("serviceCIDR", net)))
}

impl Network {
    /// Returns the networks of pods and services with the names of their fields.
    pub fn ranges(&self) -> impl Iterator<Item = (&'static str, IpNet)> + use<> {
        ranges(self.pod_cidr, self.service_cidr)
    }

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
