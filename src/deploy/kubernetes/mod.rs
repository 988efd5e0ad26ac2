//! Kubernetes: its programs, control planes and nodes.

pub(super) mod aggregated_cas;
mod config;
mod default_accounts;
pub(super) mod drain;
mod hardening;
pub(super) mod join_secrets;
pub(super) mod kubeadm;
pub(super) mod kubeconfig;
mod kubelet_certificates;
mod node_metadata;
pub(super) mod nodes;
pub(super) mod present_addresses;
pub(super) mod profile;
mod serving;
pub(super) mod stored_endpoint;
pub(super) mod swept_node;
pub(super) mod system_pods;
mod systemd;
pub(super) mod trusted_cas;

use super::module::{Component, Module};
use super::rotation_inputs::RotationInputs;
use super::{DeployError, Deployment, Inputs};
use kubexm_config::cluster::{Cluster, Etcd, HostSpec, KubernetesKind};
use kubexm_engine::plan::{Step, Task, TaskId, TaskName};
use kubexm_types::{Digest, ImageRef};

/// Installs a node's Kubernetes programs.
pub(crate) const PROGRAMS: TaskName = TaskName::new("kubernetes", "programs");
/// Creates the first control plane.
pub(crate) const INIT: TaskName = TaskName::new("control-plane", "init");
/// Creates the secrets for joins.
pub(crate) const SECRETS: TaskName = TaskName::new("control-plane", "secrets");
/// Joins another control plane.
pub(crate) const JOIN_CONTROL_PLANE: TaskName = TaskName::new("control-plane", "join");
/// Joins a worker.
pub(crate) const JOIN_WORKER: TaskName = TaskName::new("worker", "join");
/// Labels nodes and approves the serving certificates of their kubelets.
pub(crate) const ADMIT: TaskName = TaskName::new("nodes", "admit");

/// Applies the settings of the kubelet to a node that exists.
pub(crate) const KUBELET_SETTINGS: TaskName = TaskName::new("kubernetes", "kubelet-settings");
/// Applies the settings of its programs to a control plane that exists.
pub(crate) const CONTROL_PLANE_SETTINGS: TaskName = TaskName::new("control-plane", "settings");
/// Stores settings for nodes that join later.
pub(crate) const STORED_SETTINGS: TaskName = TaskName::new("control-plane", "stored-settings");

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

    /// Returns images from the list of this version of kubeadm.
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

    fn images_on(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Vec<ImageRef> {
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
            Some(facts) if facts.pause_image().is_none() => {
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

/// Returns the step that approves the serving certificates that the kubelets of these nodes request.
pub(super) fn approve_serving(nodes: &[&HostSpec]) -> impl Into<Step> + use<> {
    serving::ApproveServing::of(nodes)
}

/// Adds the steps that write the certificates and kubeconfigs of a node with systemd units, that restart the programs that
/// read them, and that wait for them.
pub(super) fn systemd_renewed(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    systemd::renewed(inputs, host, task)
}

/// Adds the steps of a node in a phase of the rotation of authorities.
pub(super) fn rotated(
    inputs: &Inputs<'_>,
    given: &RotationInputs<'_>,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    match inputs.cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => kubeadm::rotated(inputs, given, host, task),
        KubernetesKind::Systemd => systemd::rotation::rotated(inputs, given, host, task),
    }
}

/// Adds the step after which the kubelet of a node with systemd units has certificates of the new CA.
pub(super) fn systemd_rotated_kubelet(given: &RotationInputs<'_>, task: Task) -> Task {
    systemd::rotation::rotated_kubelet(given, task)
}

/// Returns whether kubeadm creates the nodes.
pub(super) fn is_kubeadm(cluster: &Cluster) -> bool {
    cluster.kubernetes.kind == KubernetesKind::Kubeadm
}

/// Returns the kubeconfig with which kube-vip connects to the API server of its control plane, and the digest of its
/// certificate; `None` with kubeadm.
pub(super) fn kube_vip_kubeconfig(
    inputs: &Inputs<'_>,
    host: &HostSpec,
) -> Result<Option<(String, Digest)>, DeployError> {
    match inputs.cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => Ok(None),
        KubernetesKind::Systemd => systemd::kube_vip_kubeconfig(inputs, host).map(Some),
    }
}

/// Returns the task that creates the first control plane.
pub(super) fn first_control_plane(first: &HostSpec) -> TaskId {
    INIT.id(&first.name)
}

/// Returns the task that makes a host a node.
pub(super) fn joined(inputs: &Inputs<'_>, host: &HostSpec) -> TaskId {
    let is_first = inputs.first().is_some_and(|first| first.name == host.name);
    match () {
        () if is_first => first_control_plane(host),
        () if inputs.cluster.is_control_plane(&host.name) => JOIN_CONTROL_PLANE.id(&host.name),
        () => JOIN_WORKER.id(&host.name),
    }
}

/// Returns the tasks after which every host is a node with its labels, certificates and settings.
pub(super) fn all_joined(inputs: &Inputs<'_>) -> Vec<TaskId> {
    let nodes = inputs.nodes();
    let mut tasks: Vec<TaskId> = nodes.iter().map(|host| joined(inputs, host)).collect();
    tasks.extend(
        inputs
            .first()
            .map(|first| match inputs.cluster.kubernetes.kind {
                KubernetesKind::Kubeadm => STORED_SETTINGS.id(&first.name),
                KubernetesKind::Systemd => ADMIT.id(&first.name),
            }),
    );
    tasks
}
