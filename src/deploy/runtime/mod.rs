//! What runs containers. A runtime is one file here, with its templates, and a line in [`of`].

mod containerd;

use super::{DeployError, Inputs};
use crate::plan::{Task, TaskId};
use crate::spec::HostName;
use crate::spec::cluster::{HostSpec, RuntimeKind};

/// Folder of CNI plugins on hosts.
pub(super) const CNI_BIN: &str = "/opt/cni/bin";

/// What the rest of a deployment asks of a container runtime.
pub(super) trait Runtime: Sync {
    /// Components that the bundle must have, by catalog name.
    fn components(&self) -> &'static [&'static str];

    /// Address of its CRI socket, as in `unix:///run/…`.
    fn socket(&self) -> &'static str;

    /// Its unit, which the kubelet starts after.
    fn unit(&self) -> &'static str;

    /// Installs, configures and starts it on a node; the task's name is that of [`installed`].
    fn install(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError>;

    /// How images are held on a node.
    fn images(&self) -> ImageScripts;
}

/// POSIX shell over image names as arguments, with kubexm's programs in `PATH`.
pub(super) struct ImageScripts {
    /// Ends with 0 where every image is there and safe from the kubelet's garbage collection; else
    /// prints which one is not.
    pub(super) check: &'static str,
    /// Gets them from the local registry and makes them safe.
    pub(super) pull: &'static str,
}

/// The runtime of a kind.
pub(super) fn of(kind: RuntimeKind) -> Option<&'static dyn Runtime> {
    match kind {
        RuntimeKind::Containerd => Some(&containerd::Containerd),
        RuntimeKind::Docker | RuntimeKind::CriO | RuntimeKind::Isulad => None,
    }
}

/// The cluster's runtime.
pub(super) fn of_cluster(inputs: &Inputs<'_>) -> Result<&'static dyn Runtime, DeployError> {
    let kind = inputs.cluster.runtime.kind;
    of(kind).ok_or(DeployError::Unsupported(kind.name()))
}

/// The task after which a node's runtime answers.
pub(super) fn installed(host: &HostName) -> TaskId {
    super::id("runtime", "install", host)
}
