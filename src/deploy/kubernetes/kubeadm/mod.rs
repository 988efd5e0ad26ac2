//! Kubernetes with kubeadm: programs, init and joins.

mod etcd;
mod init;
mod join;
pub(crate) mod patches;
mod programs;
mod renewal;
mod rotation;
mod secrets;
mod settings;
mod undo;
mod upgrade;

use std::time::Duration;

use crate::kubernetes::node_metadata::NodeMetadata;
use crate::kubernetes::profile;
use crate::kubernetes::serving::{ApproveServing, registered};
use crate::{DeployError, Inputs, images, kubernetes};
pub(crate) use init::init_config;
pub(crate) use join::join_config_for_validation;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::Limit;
use kubexm_engine::plan::{Task, TaskId, TaskValue};
use kubexm_engine::steps::{ConfigReadAtInit, RunScript, WriteFile};
use kubexm_render::kubeadm::Node;
use kubexm_scripts::kubernetes as scripts;
pub(crate) use renewal::{
    CERTIFICATE_FILES, kubelet_begins_again, kubelet_credentials, renewed, super_admin,
};
pub(crate) use rotation::{rotated, rotated_kubelet};
pub(crate) use settings::ETCD_SETTINGS;
pub(crate) use upgrade::steps as upgraded;

/// How long kubeadm may run. It waits four minutes each for the kubelet and for the control plane, and five for a
/// certificate; a slow host needs several times as long.
const LIMIT: Limit = Limit::new(Duration::from_secs(1800), "kubeadm");

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
        .step(registered(&nodes))
        .step(NodeMetadata::of(inputs, &nodes))
        .step(ApproveServing::of(inputs, &nodes));
    tasks.extend(kubelets);
    tasks.push(admit);
    let control_planes = settings::control_planes(inputs)?;
    let configured: Vec<TaskId> = control_planes.iter().map(Task::id).collect();
    let mut stored = settings::stored(inputs, first, configured)?;
    if !control_planes.is_empty() {
        // API servers that verify kubelets from now on may find kubelets whose requests are new.
        stored = stored.step(ApproveServing::of(inputs, &nodes));
    }
    tasks.extend(control_planes);
    tasks.push(profile::rewrite(inputs, stored));
    Ok(tasks)
}

/// Files that kubeadm writes with a mode with which every user of the host can read them.
const FILES: [&str; 3] = [
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/instance-config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
];

/// Returns the step that makes files of kubeadm readable by root only. kubeadm keeps the mode when it writes them
/// again.
fn file_modes() -> RunScript {
    RunScript::new(
        "kubeadm file modes",
        "Protect the kubelet's configuration",
        scripts::FILE_MODES.verb("check"),
        scripts::FILE_MODES.verb("apply"),
    )
    .arguments(FILES)
}

/// Returns the step that starts the kubelet of a node again. kubeadm starts it only when the node joins, and a restart of
/// one that runs is not necessary.
fn kubelet_runs() -> RunScript {
    RunScript::new(
        "kubelet runs",
        "Start the kubelet",
        "systemctl is-active --quiet kubelet.service || { echo 'it does not run'; exit 1; }",
        "systemctl start kubelet.service",
    )
}

/// Returns the step for a file that the kubeadm command with the marker file `marker` reads.
fn config_read_at_init(marker: &str, file: WriteFile) -> ConfigReadAtInit {
    ConfigReadAtInit {
        file,
        marker: marker.to_owned(),
        advice: "To apply the change, follow \
                 https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-reconfigure/"
            .to_owned(),
    }
}

/// Returns the tasks that prepare a host for `kubeadm init` or `kubeadm join`.
fn tasks_before_join(host: &HostSpec) -> [TaskId; 2] {
    [
        images::PULL.id(&host.name),
        kubernetes::PROGRAMS.id(&host.name),
    ]
}

fn node(cluster: &Cluster, host: &HostSpec) -> Node {
    let mut kubelet_args = cluster.kubernetes.kubelet.extra_args.clone();
    kubelet_args
        .entry("node-ip".to_owned())
        .or_insert_with(|| host.internal_addresses.to_string());
    Node {
        name: host.name.to_string(),
        cri_socket: cluster.runtime.kind.properties().socket.to_owned(),
        ignore_preflight_errors: cluster.kubernetes.kubeadm.ignore_preflight_errors.clone(),
        taints: host.taints.clone(),
        kubelet_args,
    }
}
