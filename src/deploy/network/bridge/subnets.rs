//! The pod subnets of the nodes. The controller manager assigns a subnet when a node joins.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::TaskValue;
use kubexm_engine::steps::ProvideValue;
use kubexm_scripts::network::POD_SUBNETS;
use kubexm_types::HostName;

/// A node's address and its pod subnet, as validated text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    address: String,
    subnet: String,
}

/// Every node of the cluster, including nodes that are not in the cluster file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subnets(BTreeMap<String, Node>);

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
        files: Vec::new(),
    }
}

impl Subnets {
    fn parse(text: &str) -> Result<Self, String> {
        let mut nodes = BTreeMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, node) = parse_line(line).ok_or_else(|| {
                format!(
                    "the cluster lists a node as '{line}'; expected a name, an address and a subnet"
                )
            })?;
            // A node that kubexm does not manage may have no pod subnet.
            if let Some(node) = node {
                nodes.insert(name, node);
            }
        }
        Ok(Self(nodes))
    }

    /// Returns placeholders for subnets that are not known yet.
    pub(super) fn placeholder(nodes: &[HostName]) -> Self {
        let node = |name: &HostName| Node {
            address: format!("<address of {name}>"),
            subnet: format!("<pod subnet of {name}>"),
        };
        Self(
            nodes
                .iter()
                .map(|name| (name.to_string(), node(name)))
                .collect(),
        )
    }

    /// Returns the pod subnet of a node.
    pub(super) fn subnet(&self, node: &HostName) -> String {
        let node = self.0.get(node.as_str());
        node.map(|node| node.subnet.clone()).unwrap_or_default()
    }

    /// Returns the address and the subnet of every other node.
    pub(super) fn others(&self, node: &HostName) -> impl Iterator<Item = (&str, &str)> {
        let others = self
            .0
            .iter()
            .filter(move |(name, _)| *name != node.as_str());
        others.map(|(_, node)| (node.address.as_str(), node.subnet.as_str()))
    }
}

/// Parses a line. Returns `None` if it is malformed, or if the node has a subnet but no address of its
/// family. The node is `None` if it has no subnet.
fn parse_line(line: &str) -> Option<(String, Option<Node>)> {
    let mut fields = line.split_whitespace();
    let name = HostName::parse(fields.next()?).ok()?.to_string();
    let rest: Vec<&str> = fields.collect();
    let Some((subnet, addresses)) = rest.split_last() else {
        return Some((name, None));
    };
    let Ok(subnet) = subnet.parse::<IpNet>() else {
        // The node has no subnet; the last field is an address.
        return subnet.parse::<IpAddr>().ok().map(|_| (name, None));
    };
    let address = addresses
        .iter()
        .filter_map(|text| text.parse::<IpAddr>().ok())
        .find(|address| address.is_ipv4() == subnet.addr().is_ipv4())?;
    let node = Node {
        address: address.to_string(),
        subnet: subnet.to_string(),
    };
    Some((name, Some(node)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_gets_the_subnets_of_the_others() {
        let text = "node1 192.0.2.11 10.244.0.0/24\nnode2 2001:db8::2 192.0.2.12 10.244.1.0/24\nother 192.0.2.9\n\n";
        let subnets = Subnets::parse(text).unwrap();
        let node1 = HostName::parse("node1").unwrap();
        assert_eq!(subnets.subnet(&node1), "10.244.0.0/24");
        let others: Vec<_> = subnets.others(&node1).collect();
        assert_eq!(others, [("192.0.2.12", "10.244.1.0/24")]);
    }

    #[test]
    fn invalid_subnets_are_refused() {
        for hostile in [
            "node1 192.0.2.11 $(reboot)/24",
            "node1 `x` 10.244.0.0/24",
            "a;b 192.0.2.1 10.244.0.0/24",
            "node1 192.0.2.11 10.244.0.0/33",
        ] {
            assert!(Subnets::parse(hostile).is_err(), "{hostile}");
        }
    }
}
