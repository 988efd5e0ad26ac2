//! `spec.containerRuntime`.

use serde_json::Value;

/// What runs containers on every node.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// Which one.
    pub kind: RuntimeKind,
    /// Settings merged into its main configuration file; an empty object where there are none.
    pub extra_config: Value,
}

/// The container runtimes that kubexm knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// containerd with runc.
    Containerd,
    /// Docker Engine with cri-dockerd before it.
    Docker,
    /// CRI-O with crun.
    CriO,
    /// iSulad.
    Isulad,
}

impl RuntimeKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Containerd, Self::Docker, Self::CriO, Self::Isulad];

    /// Its name in `cluster.yaml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Docker => "docker",
            Self::CriO => "cri-o",
            Self::Isulad => "isulad",
        }
    }
}
