//! The pod subnets of the nodes. The controller manager assigns a subnet when a node joins.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use async_trait::async_trait;
use ipnet::IpNet;

use kubexm_config::cluster::{IpFamilies, OfFamily};
use kubexm_engine::Host;
use kubexm_engine::plan::{Action, Describe, Step, StepError, TaskValue};
use kubexm_types::{HostName, Message};

use crate::objects::{Node, Server};

/// A pod subnet of a node and the node's address of the same family, as validated text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) subnet: String,
    pub(super) address: String,
}

/// Every node of the cluster with a route in each address family, including nodes that are not in the cluster file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subnets(BTreeMap<String, Vec<Route>>);

/// Returns a value for the subnets, which [`ReadSubnets`] sets.
pub(super) fn value() -> TaskValue<Subnets> {
    TaskValue::new("network.pod_subnets")
}

/// Reads the subnets from the cluster.
pub(super) struct ReadSubnets {
    /// The nodes to read; all of the cluster if it is empty.
    pub(super) only: BTreeSet<HostName>,
    pub(super) value: TaskValue<Subnets>,
}

impl Describe for ReadSubnets {
    fn id(&self) -> String {
        format!("provide {}", self.value.name())
    }

    fn describe(&self) -> String {
        "Read the pod subnets of the nodes".to_owned()
    }
}

impl From<ReadSubnets> for Step {
    fn from(step: ReadSubnets) -> Self {
        Self::Action(Box::new(step))
    }
}

#[async_trait]
impl Action for ReadSubnets {
    fn provides(&self) -> Vec<&'static str> {
        vec![self.value.name()]
    }

    fn only_reads(&self) -> bool {
        true
    }

    async fn run(&self, host: &dyn Host) -> Result<(), StepError> {
        let title = self.describe();
        let nodes: Vec<Node> = Server::of(host).list(&title, &["nodes"]).await?;
        let is_read = |node: &&Node| {
            let mut only = self.only.iter();
            self.only.is_empty() || only.any(|name| name.as_str() == node.metadata.name)
        };
        let subnets = Subnets::of_nodes(nodes.iter().filter(is_read));
        let subnets = subnets.map_err(|reason| StepError::Other(reason.within(&title)))?;
        self.value.set(subnets);
        Ok(())
    }
}

impl Subnets {
    /// # Errors
    /// A node has a malformed name, address or subnet, or a subnet but no address of its family.
    fn of_nodes<'a>(nodes: impl Iterator<Item = &'a Node>) -> Result<Self, Message> {
        let mut all = BTreeMap::new();
        for node in nodes {
            let (name, routes) = routes_of(node).ok_or_else(|| {
                let (addresses, subnets) = (&node.status.addresses, &node.spec.pod_cidrs);
                let addresses: Vec<&str> = addresses.iter().map(|one| one.address.as_str()).collect();
                Message::quoting(format!(
                    "the node {} has the addresses {addresses:?} and the subnets {subnets:?}; expected subnets of the same \
                     address families",
                    node.metadata.name
                ))
            })?;
            // A node that kubexm does not manage may have no pod subnet.
            if !routes.is_empty() {
                all.insert(name, routes);
            }
        }
        Ok(Self(all))
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

/// Returns the name of a node, and a route for each of its subnets. Returns `None` if a value is malformed, or if the node has a
/// subnet but no address of its family.
fn routes_of(node: &Node) -> Option<(String, Vec<Route>)> {
    let name = HostName::parse(&node.metadata.name).ok()?.to_string();
    let addresses = node.status.addresses.iter();
    let addresses = addresses.filter(|address| address.kind == "InternalIP");
    let addresses = addresses.map(|address| address.address.parse().ok());
    let addresses: Vec<IpAddr> = addresses.collect::<Option<_>>()?;
    let route = |subnet: &String| {
        let subnet: IpNet = subnet.parse().ok()?;
        let mut addresses = addresses.iter();
        let address = addresses.find(|address| address.family() == subnet.family())?;
        Some(Route {
            address: address.to_string(),
            subnet: subnet.to_string(),
        })
    };
    let routes = node.spec.pod_cidrs.iter().map(route);
    Some((name, routes.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the subnets of nodes, each a line with its name, addresses and subnets.
    fn subnets(lines: &str) -> Result<Subnets, Message> {
        let nodes = lines.lines().map(|line| {
            let mut words = line.split(' ');
            let name = words.next();
            let (subnets, addresses): (Vec<&str>, Vec<&str>) =
                words.partition(|word| word.contains('/'));
            let addresses = addresses
                .iter()
                .map(|address| json!({"type": "InternalIP", "address": address}));
            let mut addresses: Vec<_> = addresses.collect();
            addresses.push(json!({"type": "Hostname", "address": name}));
            let fields = json!({
                "metadata": {"name": name},
                "spec": {"podCIDRs": subnets},
                "status": {"addresses": addresses},
            });
            serde_json::from_value(fields).unwrap()
        });
        Subnets::of_nodes(nodes.collect::<Vec<Node>>().iter())
    }

    #[test]
    fn each_node_gets_the_subnets_of_the_others() {
        let text = "node1 192.0.2.11 10.244.0.0/24\nnode2 2001:db8::2 192.0.2.12 10.244.1.0/24\nother 192.0.2.9";
        let subnets = subnets(text).unwrap();
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
        let subnets = subnets(text).unwrap();
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
            assert!(subnets(hostile).is_err(), "{hostile}");
        }
    }
}
