//! Kubernetes itself: its programs, its control planes, its nodes.

mod binary;
mod config;
pub(super) mod kubeadm;

use super::{DeployError, Inputs, id};
use kubexm_config::cluster::{Etcd, HostSpec, KubernetesKind};
use kubexm_engine::plan::{Task, TaskId};
use kubexm_types::ImageRef;

/// The API server's port on control planes: kubeadm's default.
pub(super) const BIND_PORT: u16 = 6443;

/// Components that the bundle must have, in the cluster's Kubernetes version.
pub(super) fn components(inputs: &Inputs<'_>) -> &'static [&'static str] {
    match inputs.cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => &["kubeadm", "kubelet", "kubectl"],
        KubernetesKind::Binaries => &[
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-proxy",
            "kubelet",
            "kubectl",
        ],
    }
}

/// Images that Kubernetes itself runs, by the list of this version's kubeadm.
pub(super) fn images(inputs: &Inputs<'_>) -> Vec<ImageRef> {
    let cluster = inputs.cluster;
    let facts = inputs.lock.kubeadm(&cluster.kubernetes.version);
    let all = facts.into_iter().flat_map(|facts| facts.images.iter());
    let needed = all.filter(|image| {
        let name = image.repository().rsplit('/').next().unwrap_or_default();
        match (cluster.kubernetes.kind, name) {
            (KubernetesKind::Binaries, name) => matches!(name, "pause" | "coredns"),
            (KubernetesKind::Kubeadm, "etcd") => matches!(cluster.etcd, Etcd::Kubeadm { .. }),
            (KubernetesKind::Kubeadm, _) => true,
        }
    });
    needed.cloned().collect()
}

/// From bare hosts with a runtime to nodes of a cluster.
pub(super) fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    match inputs.cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => kubeadm::tasks(inputs),
        KubernetesKind::Binaries => binary::tasks(inputs),
    }
}

/// The task after which the first control plane's API server answers.
pub(super) fn first_control_plane(first: &HostSpec) -> TaskId {
    id("control-plane", "init", &first.name)
}

/// The task after which a host is a node.
pub(super) fn joined(inputs: &Inputs<'_>, host: &HostSpec) -> TaskId {
    let is_first = inputs.first().is_some_and(|first| first.name == host.name);
    match () {
        () if is_first => first_control_plane(host),
        () if inputs.cluster.is_control_plane(&host.name) => {
            id("control-plane", "join", &host.name)
        }
        () => id("worker", "join", &host.name),
    }
}

/// Tasks after which every host is a node, and all is known of it that the cluster should know.
pub(super) fn complete(inputs: &Inputs<'_>) -> Vec<TaskId> {
    let nodes = inputs.cluster.nodes();
    let mut tasks: Vec<TaskId> = nodes.iter().map(|host| joined(inputs, host)).collect();
    if inputs.cluster.kubernetes.kind == KubernetesKind::Binaries {
        tasks.extend(inputs.first().map(binary::admitted));
    }
    tasks
}
