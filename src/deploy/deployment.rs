//! A plan while modules add their tasks, and the values that it provides.

use kubexm_engine::plan::{Plan, TaskValue};

/// A plan, and the value that it provides for the controller.
pub struct Deployment {
    pub plan: Plan,
    /// The cluster administrator's kubeconfig. Secret.
    pub kubeconfig: TaskValue<String>,
    /// kubeadm's kubeconfig of the group `system:masters`; empty if no host has it any more. Secret.
    pub super_admin: TaskValue<String>,
}

impl Deployment {
    pub(crate) fn new() -> Self {
        Self {
            plan: Plan::default(),
            kubeconfig: TaskValue::new("control_plane.kubeconfig"),
            super_admin: TaskValue::new("control_plane.super_admin"),
        }
    }
}
