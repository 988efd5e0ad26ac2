//! Properties that a node may not set for itself: its labels, and the names in its serving certificate.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::node::CONTROL_PLANE;
use super::serving::{ApproveServing, Node};
use crate::kubernetes::joined;
use crate::{DeployError, Inputs, journal, kubernetes};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, WaitFor};
use kubexm_pki::kubernetes::node_user;
use kubexm_pki::request::Entitled;
use kubexm_scripts::kubernetes as scripts;

/// Returns the task that labels nodes and approves their serving certificates, on the first control plane.
pub(super) fn admit(inputs: &Inputs<'_>, first: &HostSpec) -> Result<Task, DeployError> {
    let nodes = inputs.cluster.nodes();
    let names = nodes.iter().map(|host| host.name.to_string());
    let registered = WaitFor {
        title: "Wait until every node has registered".to_owned(),
        script: scripts::NODES.verb("registered"),
        arguments: names.collect(),
        at_most: Duration::from_secs(120),
        diagnosis: journal("kubelet", 20),
    };
    let (check, apply) = (scripts::LABELS.verb("check"), scripts::LABELS.verb("apply"));
    let labels = RunScript::new("node labels", "Label nodes", check, apply);
    let entitled = nodes.iter().map(|host| Node {
        name: host.name.clone(),
        entitled: entitled(inputs, host),
    });
    Ok(kubernetes::ADMIT
        .task(&first.name)
        .after(nodes.iter().map(|host| joined(inputs, host)))
        .after([kubernetes::INIT.id(&first.name)])
        .step(registered)
        .step(labels.arguments(label_arguments(inputs, &nodes)))
        .step(ApproveServing {
            nodes: entitled.collect(),
        }))
}

/// Returns the arguments of the script: labels, and the nodes that have exactly these labels. Control planes have
/// the labels that kubeadm sets
/// (<https://kubernetes.io/docs/reference/labels-annotations-taints/>).
fn label_arguments(inputs: &Inputs<'_>, nodes: &[&HostSpec]) -> Vec<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for host in nodes {
        let own = host
            .labels
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let mut labels: BTreeMap<&str, &str> = own.collect();
        if inputs.cluster.is_control_plane(&host.name) {
            labels.insert(CONTROL_PLANE, "");
            labels.insert(
                "node.kubernetes.io/exclude-from-external-load-balancers",
                "",
            );
        }
        if labels.is_empty() {
            continue;
        }
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        groups
            .entry(labels.join(","))
            .or_default()
            .push(host.name.as_str());
    }
    let pairs = groups.into_iter();
    pairs
        .flat_map(|(labels, names)| [labels, names.join(" ")])
        .collect()
}

/// Returns the names that the serving certificate of a node may contain: its name, and the addresses in the
/// configuration of its kubelet.
fn entitled(inputs: &Inputs<'_>, host: &HostSpec) -> Entitled {
    let node_ip = inputs.cluster.kubernetes.kubelet.extra_args.get("node-ip");
    let addresses = node_ip.into_iter().flat_map(|list| list.split(','));
    let addresses = addresses.filter_map(|address| address.trim().parse::<IpAddr>().ok());
    Entitled {
        common_name: node_user(&host.name),
        organization: "system:nodes".to_owned(),
        names: vec![host.name.to_string()],
        addresses: std::iter::once(host.internal_address)
            .chain(addresses)
            .collect(),
    }
}
