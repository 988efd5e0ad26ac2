//! Which node has which pods' addresses: the controller manager says so once a node has joined.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Slot;
use kubexm_engine::steps::Produce;
use kubexm_scripts::network::POD_SUBNETS;
use kubexm_types::HostName;

/// A node's address and its pods', in text that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    address: String,
    subnet: String,
}

/// Every node of the cluster, those that no `cluster.yaml` names included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subnets(BTreeMap<String, Node>);

/// Asks the cluster which node has which subnet.
pub(super) fn ask(nodes: &[&HostSpec], slot: &Slot<Subnets>) -> Produce<Subnets> {
    let names = nodes.iter().map(|host| host.name.to_string());
    Produce {
        title: "Ask which node has which pods' addresses".to_owned(),
        script: POD_SUBNETS,
        arguments: names.collect(),
        input: None,
        parse: Box::new(Subnets::parse),
        slot: slot.clone(),
        files: Vec::new(),
    }
}

impl Subnets {
    fn parse(text: &str) -> Result<Self, String> {
        let mut nodes = BTreeMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, node) = parse_line(line).ok_or_else(|| {
                format!(
                    "the cluster says of a node: '{line}', which is no name, address and subnet"
                )
            })?;
            // A node of somebody else's may have no pods.
            if let Some(node) = node {
                nodes.insert(name, node);
            }
        }
        Ok(Self(nodes))
    }

    /// What stands for subnets that are not known yet.
    pub(super) fn words(nodes: &[HostName]) -> Self {
        let of = |name: &HostName| Node {
            address: format!("<address of {name}>"),
            subnet: format!("<pod subnet of {name}>"),
        };
        Self(
            nodes
                .iter()
                .map(|name| (name.to_string(), of(name)))
                .collect(),
        )
    }

    /// The node's own.
    pub(super) fn of(&self, node: &HostName) -> String {
        let node = self.0.get(node.as_str());
        node.map(|node| node.subnet.clone()).unwrap_or_default()
    }

    /// Address and subnet of every other node.
    pub(super) fn others(&self, node: &HostName) -> impl Iterator<Item = (&str, &str)> {
        let others = self
            .0
            .iter()
            .filter(move |(name, _)| *name != node.as_str());
        others.map(|(_, node)| (node.address.as_str(), node.subnet.as_str()))
    }
}

/// `None` where the line makes no sense, or the node has neither pods nor an address to reach them.
fn parse_line(line: &str) -> Option<(String, Option<Node>)> {
    let mut words = line.split_whitespace();
    let name = HostName::parse(words.next()?).ok()?.to_string();
    let rest: Vec<&str> = words.collect();
    let Some((subnet, addresses)) = rest.split_last() else {
        return Some((name, None));
    };
    let Ok(subnet) = subnet.parse::<IpNet>() else {
        // No pods: the last word is an address.
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
    fn each_node_learns_the_way_to_the_others() {
        let text = "node1 192.0.2.11 10.244.0.0/24\nnode2 2001:db8::2 192.0.2.12 10.244.1.0/24\nother 192.0.2.9\n\n";
        let subnets = Subnets::parse(text).unwrap();
        let node1 = HostName::parse("node1").unwrap();
        assert_eq!(subnets.of(&node1), "10.244.0.0/24");
        let others: Vec<_> = subnets.others(&node1).collect();
        assert_eq!(others, [("192.0.2.12", "10.244.1.0/24")]);
    }

    #[test]
    fn what_is_no_subnet_never_reaches_a_script() {
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
