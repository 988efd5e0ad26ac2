//! What earlier clusters left in the network.

use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const BRIDGE: HostCheck = HostCheck {
    kind: FindingKind::CniLeftovers,
    when: When::BeforeInstall,
    read: "addresses of the bridge cni0",
    find: bridge,
};

/// A bridge that only has its address of the link gets the one of the subnet from the next pod.
fn bridge(asked: &Asked<'_>) -> Vec<Problem> {
    let plugin = asked.cluster.network.plugin.properties();
    let addresses = asked.answers.all("cni0").iter();
    let addresses: Vec<&str> = addresses
        .map(String::as_str)
        .filter(|address| !address.starts_with("fe80:"))
        .collect();
    if addresses.is_empty() || !plugin.has_bridge || !asked.cluster.is_node(asked.host) {
        return Vec::new();
    }
    vec![Problem {
        breaks: true,
        is_later: false,
        what: format!("has the bridge cni0 of an earlier cluster, with {}", addresses.join(" and ")),
        evidence: addresses.iter().map(|address| format!("cni0 {address}")).collect(),
        cause: "pods would not start: \"cni0\" already has an IP address different from that of their subnet".to_owned(),
        fix: "delete it".to_owned(),
        commands: vec!["ip link delete cni0".to_owned()],
    }]
}
