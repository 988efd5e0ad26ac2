//! Settings of programs on nodes that exist: kubeadm generates the files as for a new node, and the files that differ are
//! replaced on one node after another.
//!
//! kubelets change first. The API servers may then verify the certificates that the kubelets request. The cluster stores
//! the settings for later nodes last, so that a node that joins meanwhile gets settings that work.
//!
//! The former files of a change stay until the program works with its new ones. A program that does not gets them again.

mod confirmed;
mod etcd_flags;
mod kubelet;
mod look;
mod static_pod;
mod stored;

pub(crate) use self::etcd_flags::ETCD_SETTINGS;
use self::etcd_flags::EtcdFlags;
pub(super) use self::kubelet::{files_of_kubelet, of_kubelet};
use self::static_pod::PROGRAMS;
use self::stored::StoredSettings;
use super::init::{init_config, node_config, yes_or_no};
use crate::etcd::CLIENT_CA;
use crate::kubernetes::config::kube_proxy_config;
use crate::{DeployError, Inputs, kubernetes};
use kubexm_config::cluster::{Etcd, HostSpec};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_engine::steps::RunScript;
use kubexm_scripts::kubeadm;
use kubexm_types::Digest;

/// Returns the tasks that configure the kubelets of all nodes, one after another; none for a new cluster, because `kubeadm init`
/// and `join` configure its nodes.
pub(super) fn kubelets(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    if !inputs.cluster_exists() {
        return Ok(Vec::new());
    }
    let nodes = inputs.nodes();
    let joined = nodes.iter().map(|host| kubernetes::joined(inputs, host));
    let name = kubernetes::KUBELET_SETTINGS;
    chain(
        inputs,
        &nodes,
        joined.collect(),
        name,
        |host, config, task| of_kubelet(host.name.as_str(), config, task),
    )
}

/// Returns the tasks that configure the static pods of all control planes, one after another; none for a new cluster.
pub(super) fn control_planes(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first().filter(|_| inputs.cluster_exists()) else {
        return Ok(Vec::new());
    };
    let mut nodes = inputs.nodes();
    nodes.retain(|host| inputs.cluster.is_control_plane(&host.name));
    let admitted = vec![kubernetes::ADMIT.id(&first.name)];
    let name = kubernetes::CONTROL_PLANE_SETTINGS;
    chain(inputs, &nodes, admitted, name, |host, config, task| {
        let task = PROGRAMS.into_iter().fold(task, |task, program| {
            static_pod::applied(program, host.name.as_str(), &config, task)
        });
        match inputs.cluster.etcd {
            Etcd::Kubeadm { .. } => task.step(EtcdFlags(config)),
            Etcd::External { .. } => task.step(compare_etcd_ca()),
            _ => task,
        }
    })
}

/// Returns a task of this name for each node. The first one runs after `before`, and every other one after that of the
/// node before.
fn chain(
    inputs: &Inputs<'_>,
    nodes: &[&HostSpec],
    mut before: Vec<TaskId>,
    name: TaskName,
    with_steps: impl Fn(&HostSpec, String, Task) -> Task,
) -> Result<Vec<Task>, DeployError> {
    let mut tasks = Vec::new();
    for host in nodes {
        let config = node_config(inputs, host)?;
        let task = with_steps(host, config, name.task(&host.name).after(before));
        before = vec![task.id()];
        tasks.push(task);
    }
    Ok(tasks)
}

/// Returns the task that stores the settings in the cluster, after all nodes have them.
pub(super) fn stored(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    after: Vec<TaskId>,
) -> Result<Task, DeployError> {
    let config = init_config(inputs.cluster, first)?;
    let kube_proxy = kube_proxy_config(inputs.cluster, None)?;
    let digest = |text: &str| Digest::of(text.as_bytes()).hex();
    let step = StoredSettings {
        digest: digest(&config),
        proxy_digest: digest(&kube_proxy),
        config,
        is_new: !inputs.cluster_exists(),
    };
    let task = kubernetes::STORED_SETTINGS
        .task(&first.name)
        .after([kubernetes::ADMIT.id(&first.name)])
        .after(after)
        .step(step);
    Ok(if inputs.cluster_exists() {
        task.step(compare_kube_proxy(inputs))
    } else {
        task
    })
}

/// Returns the step that reports a kube-proxy that the cluster file does not want, or that is missing.
fn compare_kube_proxy(inputs: &Inputs<'_>) -> RunScript {
    let skipped = &inputs.cluster.kubernetes.kubeadm.skip_phases.init;
    let is_wanted = !skipped.iter().any(|phase| phase == "addon/kube-proxy");
    RunScript::new(
        "kube-proxy phase",
        "Compare kube-proxy with the phases that kubeadm skips",
        kubeadm::KUBE_PROXY.verb("check"),
        kubeadm::KUBE_PROXY.verb("check"),
    )
    .arguments([yes_or_no(is_wanted)])
}

/// Returns the step that reports an API server with a former CA of an etcd that exists outside of the cluster.
fn compare_etcd_ca() -> RunScript {
    RunScript::new(
        "etcd ca of the api server",
        "Compare the CA of etcd with that of the API server",
        kubeadm::ETCD_CA.verb("check"),
        kubeadm::ETCD_CA.verb("check"),
    )
    .arguments([CLIENT_CA])
}

#[cfg(test)]
mod tests;
