//! A plan while modules add their tasks, and the values that it provides.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_engine::plan::{Plan, TaskValue};
use kubexm_types::{HostName, ImageRef};

/// A plan, and the value that it provides for the controller.
pub struct Deployment {
    pub plan: Plan,
    /// The images of all modules that a node pulls before a pod needs them.
    pub(crate) node_images: BTreeMap<HostName, BTreeSet<ImageRef>>,
    /// The cluster administrator's kubeconfig. Secret.
    pub kubeconfig: TaskValue<String>,
    /// kubeadm's kubeconfig of the group `system:masters`; empty if no host has it any more. Secret.
    pub super_admin: TaskValue<String>,
}

impl Deployment {
    pub(crate) fn new(node_images: BTreeMap<HostName, BTreeSet<ImageRef>>) -> Self {
        Self {
            plan: Plan::default(),
            node_images,
            kubeconfig: TaskValue::new("control_plane.kubeconfig"),
            super_admin: TaskValue::new("control_plane.super_admin"),
        }
    }
}
