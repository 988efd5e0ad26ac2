//! Kubernetes with kubeadm: programs, init and joins.

mod etcd;
mod init;
mod join;
#[cfg(test)]
mod losing_host;
mod node;
mod node_version;
pub(crate) mod patches;
mod programs;
mod renewal;
pub(crate) mod restarts;
mod rotation;
mod secrets;
mod settings;
mod undo;
mod upgrade;

use crate::kubernetes::node_metadata::NodeMetadata;
use crate::kubernetes::nodes::NodesWait;
use crate::kubernetes::profile;
use crate::kubernetes::serving::ApproveServing;
use crate::{DeployError, Inputs, kubernetes};
pub(crate) use init::init_config;
pub(crate) use join::join_config_for_validation;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{Task, TaskId, TaskValue};
pub(crate) use renewal::{
    CERTIFICATE_FILES, kubelet_begins_again, kubelet_credentials, renewed, super_admin,
};
pub(crate) use rotation::{rotated, rotated_kubelet};
pub(crate) use settings::ETCD_SETTINGS;
pub(crate) use upgrade::steps as upgraded;

/// Returns the tasks: programs on all nodes, init on the first control plane, joins on all others.
pub(super) fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(Vec::new());
    };
    let mut tasks = Vec::new();
    for host in inputs.nodes() {
        tasks.push(programs::programs(inputs, host)?);
    }
    tasks.push(init::init(inputs, first)?);
    let secrets: TaskValue<secrets::JoinSecrets> = TaskValue::new("control_plane.join_secrets");
    let others: Vec<&HostSpec> = inputs
        .nodes()
        .into_iter()
        .filter(|host| host.name != first.name)
        .collect();
    let pending = others
        .iter()
        .any(|host| !inputs.host_facts(&host.name).is_node);
    if pending {
        tasks.push(secrets::mint(inputs, first, &secrets)?);
    }
    // etcd accepts one new member at a time, so control planes join one after another.
    let mut before = kubernetes::INIT.id(&first.name);
    for host in others {
        let task = join::join(inputs, host, &secrets, pending)?;
        if inputs.cluster.is_control_plane(&host.name) {
            let this = task.id();
            tasks.push(task.after([before]));
            before = this;
        } else {
            tasks.push(task.after([kubernetes::INIT.id(&first.name)]));
        }
    }
    let nodes = inputs.nodes();
    let kubelets = settings::kubelets(inputs)?;
    let admit = kubernetes::ADMIT
        .task(&first.name)
        .after(nodes.iter().map(|host| kubernetes::joined(inputs, host)))
        .after(kubelets.iter().map(Task::id))
        .step(NodesWait::registered(&nodes))
        .step(NodeMetadata::of(inputs, &nodes))
        .step(ApproveServing::of(&nodes));
    tasks.extend(kubelets);
    tasks.push(admit);
    let control_planes = settings::control_planes(inputs)?;
    let configured: Vec<TaskId> = control_planes.iter().map(Task::id).collect();
    let mut stored = settings::stored(inputs, first, configured)?;
    if !control_planes.is_empty() {
        // API servers that verify kubelets from now on may find kubelets whose requests are new.
        stored = stored.step(ApproveServing::of(&nodes));
    }
    tasks.extend(control_planes);
    tasks.push(profile::rewrite(inputs, stored));
    Ok(tasks)
}
