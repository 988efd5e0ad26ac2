//! `spec.kubernetes.kubeadm.patches`: what is changed in what kubeadm writes
//! (<https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/control-plane-flags/#patches>).

use serde_json::Value;

use kubexm_types::{HostName, Version};

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    /// What is changed.
    pub target: PatchTarget,
    /// How it is written.
    pub kind: PatchKind,
    /// The change itself: a list of operations where the kind is [`PatchKind::Json`], else fields.
    pub change: Value,
    /// Where; everywhere if there are none.
    pub hosts: Vec<HostName>,
}

/// What kubeadm lets be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchTarget {
    /// A static pod of a control plane.
    ApiServer,
    /// A static pod of a control plane.
    ControllerManager,
    /// A static pod of a control plane.
    Scheduler,
    /// A static pod of a control plane, where kubeadm runs etcd.
    Etcd,
    /// The kubelet's configuration of a node.
    Kubelet,
    /// The deployment of CoreDNS, once for the cluster, since Kubernetes 1.31
    /// (<https://github.com/kubernetes/kubernetes/pull/124820>).
    CoreDns,
}

/// How a patch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// A strategic merge patch: lists are merged by the keys that Kubernetes' types have for them.
    Strategic,
    /// A JSON merge patch (RFC 7386).
    Merge,
    /// A JSON patch (RFC 6902).
    Json,
}

/// A patch as kubeadm reads it: JSON in a file whose name says the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchFile {
    /// What is changed.
    pub target: PatchTarget,
    /// `target[suffix][+type].extension`; kubeadm goes by the order of names.
    pub name: String,
    /// The change.
    pub content: String,
}

impl PatchTarget {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Etcd,
        Self::Kubelet,
        Self::CoreDns,
    ];

    /// kubeadm's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Etcd => "etcd",
            Self::Kubelet => "kubeletconfiguration",
            Self::CoreDns => "corednsdeployment",
        }
    }

    /// Whether a kubeadm of this version knows it; kubeadm passes over what it does not know.
    pub fn is_known_to(self, kubernetes: &Version) -> bool {
        self != Self::CoreDns || *kubernetes >= Version::new(1, 31, 0)
    }
}

impl PatchKind {
    /// All of them, the one first that is meant where nothing is said.
    pub const ALL: [Self; 3] = [Self::Strategic, Self::Merge, Self::Json];

    /// kubeadm's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strategic => "strategic",
            Self::Merge => "merge",
            Self::Json => "json",
        }
    }
}

impl Patch {
    /// Whether it is meant for a host.
    pub fn is_for(&self, host: &HostName) -> bool {
        self.hosts.is_empty() || self.hosts.contains(host)
    }

    /// Its file, as the one at place `at` of all patches.
    pub fn file(&self, at: usize) -> PatchFile {
        let (target, kind) = (self.target.name(), self.kind.name());
        PatchFile {
            target: self.target,
            name: format!("{target}-{at:04}+{kind}.json"),
            content: format!("{:#}\n", self.change),
        }
    }
}
