//! The pod subnets of the nodes. The controller manager assigns a subnet when a node joins.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use kubexm_config::cluster::{HostSpec, IpFamilies, OfFamily};
use kubexm_engine::plan::TaskValue;
use kubexm_engine::steps::{Parse, ProvideValue};
use kubexm_scripts::network::POD_SUBNETS;
use kubexm_types::{HostName, Message};

/// A pod subnet of a node and the node's address of the same family, as validated text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) subnet: String,
    pub(super) address: String,
}

/// Every node of the cluster with a route in each address family, including nodes that are not in the cluster file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subnets(BTreeMap<String, Vec<Route>>);

/// Returns a value for the subnets, which [`read`] sets.
pub(super) fn value() -> TaskValue<Subnets> {
    TaskValue::new("network.pod_subnets")
}

/// Returns a step that reads the subnets from the cluster.
pub(super) fn read(nodes: &[&HostSpec], subnets: &TaskValue<Subnets>) -> ProvideValue<Subnets> {
    let names = nodes.iter().map(|host| host.name.to_string());
    ProvideValue {
        title: "Read the pod subnets of the nodes".to_owned(),
        script: POD_SUBNETS,
        arguments: names.collect(),
        input: None,
        parse: Box::new(Subnets::parse),
        value: subnets.clone(),
        only_reads: true,
        files: Vec::new(),
    }
}

/// Returns how to parse the lines of these nodes alone.
pub(super) fn parse_only(nodes: &[&HostSpec]) -> Parse<Subnets> {
    let names: BTreeSet<String> = nodes.iter().map(|host| host.name.to_string()).collect();
    Box::new(move |text| {
        let is_one = |line: &&str| {
            let name = line.split_whitespace().next();
            name.is_some_and(|name| names.contains(name))
        };
        let lines: Vec<&str> = text.lines().filter(is_one).collect();
        Subnets::parse(&lines.join("\n"))
    })
}

impl Subnets {
    fn parse(text: &str) -> Result<Self, Message> {
        let mut nodes = BTreeMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, routes) = parse_line(line).ok_or_else(|| {
                format!(
                    "the cluster lists a node as '{line}'; expected a name, addresses, and subnets of the same \
                     address families"
                )
            })?;
            // A node that kubexm does not manage may have no pod subnet.
            if !routes.is_empty() {
                nodes.insert(name, routes);
            }
        }
        Ok(Self(nodes))
    }

    /// Returns placeholders for subnets that are not known yet.
    pub(super) fn placeholder(nodes: &[HostName], pods: IpFamilies<IpNet>) -> Self {
        let routes = |name: &HostName| {
            let family = |net: IpNet| {
                if pods.is_dual() {
                    format!("{} ", net.family())
                } else {
                    String::new()
                }
            };
            let route = |net| Route {
                address: format!("<{}address of {name}>", family(net)),
                subnet: format!("<{}pod subnet of {name}>", family(net)),
            };
            pods.iter().map(route).collect()
        };
        Self(
            nodes
                .iter()
                .map(|name| (name.to_string(), routes(name)))
                .collect(),
        )
    }

    /// Returns the pod subnets of a node.
    pub(super) fn of(&self, node: &HostName) -> Vec<String> {
        let routes = self.0.get(node.as_str()).into_iter().flatten();
        routes.map(|route| route.subnet.clone()).collect()
    }

    /// Returns the addresses of a node's bridge, with prefix lengths: the first one of each pod subnet.
    pub(super) fn bridge_addresses(&self, node: &HostName) -> Vec<String> {
        let subnets = self.of(node).into_iter();
        let subnets = subnets.filter_map(|subnet| subnet.parse::<IpNet>().ok());
        let first = |subnet: IpNet| {
            let first = match subnet.network() {
                IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() | 1).into(),
                IpAddr::V6(address) => IpAddr::from(Ipv6Addr::from_bits(address.to_bits() | 1)),
            };
            format!("{first}/{}", subnet.prefix_len())
        };
        subnets.map(first).collect()
    }

    /// Returns the routes to every other node that stays in the cluster.
    pub(super) fn others(
        &self,
        node: &HostName,
        leaving: &BTreeSet<HostName>,
    ) -> impl Iterator<Item = &Route> {
        let leaves = |name: &str| leaving.iter().any(|host| host.as_str() == name);
        let others = self
            .0
            .iter()
            .filter(move |(name, _)| *name != node.as_str() && !leaves(name));
        others.flat_map(|(_, routes)| routes)
    }
}

/// Parses a line: a name, addresses and subnets. Returns `None` if it is malformed, or if the node has a subnet but no
/// address of its family.
fn parse_line(line: &str) -> Option<(String, Vec<Route>)> {
    let mut fields = line.split_whitespace();
    let name = HostName::parse(fields.next()?).ok()?.to_string();
    let (mut addresses, mut subnets): (Vec<IpAddr>, Vec<IpNet>) = (Vec::new(), Vec::new());
    for field in fields {
        if field.contains('/') {
            subnets.push(field.parse().ok()?)
        } else {
            addresses.push(field.parse().ok()?)
        }
    }
    let route = |subnet: IpNet| {
        let mut addresses = addresses.iter();
        let address = addresses.find(|address| address.family() == subnet.family())?;
        Some(Route {
            address: address.to_string(),
            subnet: subnet.to_string(),
        })
    };
    let routes = subnets.into_iter().map(route);
    Some((name, routes.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_gets_the_subnets_of_the_others() {
        let text = "node1 192.0.2.11 10.244.0.0/24\nnode2 2001:db8::2 192.0.2.12 10.244.1.0/24\nother 192.0.2.9\n\n";
        let subnets = Subnets::parse(text).unwrap();
        let node1 = HostName::parse("node1").unwrap();
        assert_eq!(subnets.of(&node1), ["10.244.0.0/24"]);
        assert_eq!(routes(&subnets, &node1), ["10.244.1.0/24 by 192.0.2.12"]);
        assert_eq!(subnets.bridge_addresses(&node1), ["10.244.0.1/24"]);
    }

    fn routes(subnets: &Subnets, node: &HostName) -> Vec<String> {
        let none = BTreeSet::new();
        let routes = subnets.others(node, &none);
        routes
            .map(|route| format!("{} by {}", route.subnet, route.address))
            .collect()
    }

    #[test]
    fn subnets_of_both_families_have_a_route_each() {
        let text = "node1 192.0.2.11 2001:db8::11 10.244.0.0/24 fd00:10:244::/64\n\
                    node2 2001:db8::12 192.0.2.12 10.244.1.0/24 fd00:10:244:1::/64\n";
        let subnets = Subnets::parse(text).unwrap();
        let node1 = HostName::parse("node1").unwrap();
        assert_eq!(subnets.of(&node1), ["10.244.0.0/24", "fd00:10:244::/64"]);
        let addresses = ["10.244.0.1/24", "fd00:10:244::1/64"];
        assert_eq!(subnets.bridge_addresses(&node1), addresses);
        let expected = [
            "10.244.1.0/24 by 192.0.2.12",
            "fd00:10:244:1::/64 by 2001:db8::12",
        ];
        assert_eq!(routes(&subnets, &node1), expected);
    }

    #[test]
    fn invalid_subnets_are_refused() {
        for hostile in [
            "node1 192.0.2.11 $(reboot)/24",
            "node1 `x` 10.244.0.0/24",
            "a;b 192.0.2.1 10.244.0.0/24",
            "node1 192.0.2.11 10.244.0.0/33",
            "node1 192.0.2.11 10.244.0.0/24 fd00:10:244::/64",
        ] {
            assert!(Subnets::parse(hostile).is_err(), "{hostile}");
        }
    }
}
