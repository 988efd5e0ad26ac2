//! Kubernetes itself: its programs, its control planes, its nodes.

pub(super) mod kubeadm;

use super::{DeployError, Inputs, id};
use crate::plan::{Task, TaskId};
use crate::spec::ImageRef;
use crate::spec::cluster::{Etcd, HostSpec, KubernetesKind};

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
        KubernetesKind::Binaries => Err(DeployError::Unsupported("kubernetes.type kubexm")),
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
