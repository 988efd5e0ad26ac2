//! `spec.containerRuntime`.

use serde_json::Value;

use super::{CgroupDriver, RuntimeKind, SiteRegistry};

/// The container runtime of every node.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub kind: RuntimeKind,
    /// Settings that are merged into the main configuration file; may be an empty object.
    pub extra_config: Value,
    /// The cgroup driver of the runtime and of the kubelet.
    pub cgroup_driver: CgroupDriver,
    /// Registries besides that of the cluster.
    pub registries: Vec<SiteRegistry>,
}
