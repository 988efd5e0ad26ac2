//! Properties that a node may not set for itself: its labels, and the names in its serving certificate.

use std::collections::BTreeMap;

use super::node::CONTROL_PLANE;
use crate::kubernetes::joined;
use crate::kubernetes::profile;
use crate::kubernetes::serving::{ApproveServing, registered};
use crate::{DeployError, Inputs, kubernetes};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::RunScript;
use kubexm_scripts::kubernetes as scripts;

/// Returns the task that labels nodes and approves their serving certificates, on the first control plane.
pub(super) fn admit(inputs: &Inputs<'_>, first: &HostSpec) -> Result<Task, DeployError> {
    let nodes = inputs.nodes();
    let (check, apply) = (scripts::LABELS.verb("check"), scripts::LABELS.verb("apply"));
    let labels = RunScript::new("node labels", "Label nodes", check, apply);
    let task = kubernetes::ADMIT
        .task(&first.name)
        .after(nodes.iter().map(|host| joined(inputs, host)))
        .after([kubernetes::INIT.id(&first.name)])
        .step(registered(&nodes))
        .step(labels.arguments(label_arguments(inputs, &nodes)))
        .step(ApproveServing::of(inputs, &nodes));
    Ok(profile::rewrite(inputs, task))
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
