//! Properties that a node may not set for itself: its labels, and the names in its serving certificate.

use crate::kubernetes::joined;
use crate::kubernetes::node_metadata::NodeMetadata;
use crate::kubernetes::nodes::NodesWait;
use crate::kubernetes::profile;
use crate::kubernetes::serving::ApproveServing;
use crate::{DeployError, Inputs, kubernetes};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;

/// Returns the task that labels nodes and approves their serving certificates, on the first control plane.
pub(super) fn admit(inputs: &Inputs<'_>, first: &HostSpec) -> Result<Task, DeployError> {
    let nodes = inputs.nodes();
    let task = kubernetes::ADMIT
        .task(&first.name)
        .after(nodes.iter().map(|host| joined(inputs, host)))
        .after([kubernetes::INIT.id(&first.name)])
        .step(NodesWait::registered(&nodes))
        .step(NodeMetadata::of(inputs, &nodes))
        .step(ApproveServing::of(&nodes));
    Ok(profile::rewrite(inputs, task))
}
