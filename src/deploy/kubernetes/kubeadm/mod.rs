//! Kubernetes by kubeadm: programs, init, joins.

mod etcd;
mod init;
mod join;
pub(crate) mod patches;
mod programs;
mod secrets;
mod undo;

use crate::{DeployError, Inputs, images, kubernetes, runtime};
pub(crate) use init::init_config;
pub(crate) use join::join_preview;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Slot, Task, TaskId};
use kubexm_engine::steps::{ReadOnce, WriteFile};
use kubexm_render::kubeadm::Node;

/// Programs on all nodes, init on the first control plane, joins on all others.
pub(super) fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(Vec::new());
    };
    let mut tasks = Vec::new();
    for host in inputs.cluster.nodes() {
        tasks.push(programs::programs(inputs, host)?);
    }
    tasks.push(init::init(inputs, first)?);
    let secrets: Slot<secrets::JoinSecrets> = Slot::new("control_plane.join_secrets");
    let others: Vec<&HostSpec> = inputs
        .cluster
        .nodes()
        .into_iter()
        .filter(|host| host.name != first.name)
        .collect();
    let pending = others
        .iter()
        .any(|host| !inputs.machine(&host.name).is_node);
    if pending {
        tasks.push(secrets::mint(inputs, first, &secrets)?);
    }
    // etcd takes new members one at a time, so control planes join one after another.
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
    Ok(tasks)
}

/// A file that kubeadm reads when it makes a node, with the command of that mark.
fn read_once(by: &str, file: WriteFile) -> ReadOnce {
    ReadOnce {
        file,
        by: by.to_owned(),
        advice: "To bring the change to it, follow \
                 https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-reconfigure/"
            .to_owned(),
    }
}

fn ready_to_join(host: &HostSpec) -> [TaskId; 2] {
    [
        images::PULL.id(&host.name),
        kubernetes::PROGRAMS.id(&host.name),
    ]
}

fn node(cluster: &Cluster, host: &HostSpec) -> Node {
    let mut kubelet_args = cluster.kubernetes.kubelet.extra_args.clone();
    kubelet_args
        .entry("node-ip".to_owned())
        .or_insert_with(|| host.internal_address.to_string());
    if !host.labels.is_empty() {
        let labels: Vec<String> = host
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        kubelet_args.insert("node-labels".to_owned(), labels.join(","));
    }
    Node {
        name: host.name.to_string(),
        cri_socket: runtime::of(cluster.runtime.kind).socket().to_owned(),
        ignore_preflight_errors: cluster.kubernetes.ignore_preflight_errors.clone(),
        taints: host.taints.clone(),
        kubelet_args,
    }
}
