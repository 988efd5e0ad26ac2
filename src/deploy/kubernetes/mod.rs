//! Kubernetes itself: its programs, its control planes, its nodes.

mod config;
pub(super) mod kubeadm;
mod systemd;

use super::module::{Component, Module};
use super::{DeployError, Deployment, Inputs};
use kubexm_bundle::lock::KubeadmFacts;
use kubexm_config::cluster::{Etcd, HostSpec, KubernetesKind};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_types::ImageRef;

/// Installs a node's Kubernetes programs.
pub(crate) const PROGRAMS: TaskName = TaskName::new("kubernetes", "programs");
/// Makes the first control plane.
pub(crate) const INIT: TaskName = TaskName::new("control-plane", "init");
/// Mints what joins need.
pub(crate) const SECRETS: TaskName = TaskName::new("control-plane", "secrets");
/// Makes another control plane.
pub(crate) const JOIN_CONTROL_PLANE: TaskName = TaskName::new("control-plane", "join");
/// Makes a worker.
pub(crate) const JOIN_WORKER: TaskName = TaskName::new("worker", "join");
/// Labels nodes and approves their servers' certificates.
pub(crate) const ADMIT: TaskName = TaskName::new("nodes", "admit");

/// The API server's port on control planes: kubeadm's default.
pub(super) const BIND_PORT: u16 = 6443;

/// Kubernetes on every node.
pub(super) struct Nodes;

impl Module for Nodes {
    fn components(&self, inputs: &Inputs<'_>) -> Vec<Component> {
        let names: &[&'static str] = match inputs.cluster.kubernetes.kind {
            KubernetesKind::Kubeadm => &["kubeadm", "kubelet", "kubectl"],
            KubernetesKind::Systemd => &[
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kube-proxy",
                "kubelet",
                "kubectl",
            ],
        };
        let names = names.iter();
        names.map(|name| Component::OfKubernetes(name)).collect()
    }

    /// By the list of this version's kubeadm.
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef> {
        let cluster = inputs.cluster;
        let facts = inputs.lock.kubeadm(&cluster.kubernetes.version);
        let all = facts.into_iter().flat_map(|facts| facts.images.iter());
        let needed = all.filter(|image| {
            let name = image.repository().rsplit('/').next().unwrap_or_default();
            match (cluster.kubernetes.kind, name) {
                (KubernetesKind::Systemd, name) => matches!(name, "pause" | "coredns"),
                (KubernetesKind::Kubeadm, "etcd") => matches!(cluster.etcd, Etcd::Kubeadm { .. }),
                (KubernetesKind::Kubeadm, _) => true,
            }
        });
        needed.cloned().collect()
    }

    fn images_of(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Vec<ImageRef> {
        let mut images = self.images(inputs);
        if !inputs.cluster.is_control_plane(&host.name) {
            images.retain(|image| {
                let name = image.repository();
                name.ends_with("pause") || name.ends_with("kube-proxy")
            });
        }
        images
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        let version = &inputs.cluster.kubernetes.version;
        match inputs.lock.kubeadm(version) {
            None => vec![format!("the image list of kubeadm {version}")],
            Some(facts) if pause_image(facts).is_none() => {
                vec![format!("a pause image in the list of kubeadm {version}")]
            }
            Some(_) => Vec::new(),
        }
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        match inputs.cluster.kubernetes.kind {
            KubernetesKind::Kubeadm => kubeadm::tasks(inputs),
            KubernetesKind::Systemd => systemd::tasks(inputs),
        }
    }
}

/// Returns the sandbox image that kubeadm expects.
pub(super) fn pause_image(facts: &KubeadmFacts) -> Option<&ImageRef> {
    let mut images = facts.images.iter();
    images.find(|image| image.repository().ends_with("pause"))
}

/// The task after which the first control plane's API server answers.
pub(super) fn first_control_plane(first: &HostSpec) -> TaskId {
    INIT.id(&first.name)
}

/// The task after which a host is a node.
pub(super) fn joined(inputs: &Inputs<'_>, host: &HostSpec) -> TaskId {
    let is_first = inputs.first().is_some_and(|first| first.name == host.name);
    match () {
        () if is_first => first_control_plane(host),
        () if inputs.cluster.is_control_plane(&host.name) => JOIN_CONTROL_PLANE.id(&host.name),
        () => JOIN_WORKER.id(&host.name),
    }
}

/// Tasks after which every host is a node, and all is known of it that the cluster should know.
pub(super) fn complete(inputs: &Inputs<'_>) -> Vec<TaskId> {
    let nodes = inputs.cluster.nodes();
    let mut tasks: Vec<TaskId> = nodes.iter().map(|host| joined(inputs, host)).collect();
    if inputs.cluster.kubernetes.kind == KubernetesKind::Systemd {
        tasks.extend(inputs.first().map(systemd::admitted));
    }
    tasks
}
