//! `spec.kubernetes.kubeadm.patches`: changes to the files that kubeadm writes
//! (<https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/control-plane-flags/#patches>).

use serde_json::Value;

use kubexm_types::{HostName, Version};

/// One patch.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    pub target: PatchTarget,
    pub kind: PatchKind,
    /// A list of operations for [`PatchKind::Json`], otherwise fields.
    pub change: Value,
    /// The hosts of the patch; empty for all.
    pub hosts: Vec<HostName>,
}

/// A target of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchTarget {
    /// A static pod of a control plane.
    ApiServer,
    /// A static pod of a control plane.
    ControllerManager,
    /// A static pod of a control plane.
    Scheduler,
    /// A static pod of a control plane, if kubeadm runs etcd.
    Etcd,
    /// The configuration of the kubelet on a node.
    Kubelet,
    /// The deployment of CoreDNS, once for the cluster, since Kubernetes 1.31
    /// (<https://github.com/kubernetes/kubernetes/pull/124820>).
    CoreDns,
}

/// The form of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// A strategic merge patch, which merges lists by the keys that the Kubernetes API defines.
    Strategic,
    /// A JSON merge patch (RFC 7386).
    Merge,
    /// A JSON patch (RFC 6902).
    Json,
}

/// A patch in the form that kubeadm reads: JSON in a file whose name contains target and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchFile {
    pub target: PatchTarget,
    /// `target[suffix][+type].extension`. kubeadm applies patches in the order of their names.
    pub name: String,
    pub content: String,
}

impl PatchTarget {
    pub const ALL: [Self; 6] = [
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Etcd,
        Self::Kubelet,
        Self::CoreDns,
    ];

    /// Returns the name that kubeadm uses.
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

    /// Returns true if this version of kubeadm supports the target. kubeadm ignores unknown targets.
    pub fn is_known_to(self, kubernetes: &Version) -> bool {
        self != Self::CoreDns || *kubernetes >= Version::new(1, 31, 0)
    }
}

impl PatchKind {
    /// All kinds; the first is the default.
    pub const ALL: [Self; 3] = [Self::Strategic, Self::Merge, Self::Json];

    /// Returns the name that kubeadm uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strategic => "strategic",
            Self::Merge => "merge",
            Self::Json => "json",
        }
    }
}

impl Patch {
    /// Returns true if the patch applies to a host.
    pub fn is_for(&self, host: &HostName) -> bool {
        self.hosts.is_empty() || self.hosts.contains(host)
    }

    /// Returns the file of the patch; `at` is its index in the list of patches.
    pub fn file(&self, at: usize) -> PatchFile {
        let (target, kind) = (self.target.name(), self.kind.name());
        PatchFile {
            target: self.target,
            name: format!("{target}-{at:04}+{kind}.json"),
            content: format!("{:#}\n", self.change),
        }
    }
}
