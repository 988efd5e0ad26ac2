//! `spec.system.hooks`.

use std::time::Duration;

use kubexm_kinds::named_kinds;
use kubexm_types::{HookName, HostName};

use super::{FileSource, Role, Roles};

/// A script of the user that runs on hosts before or after a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub name: HookName,
    pub phase: HookPhase,
    pub time: HookTime,
    pub script: FileSource,
    /// The roles of the hosts that run the hook; empty for all hosts.
    pub roles: Vec<Role>,
    /// How long the hook may run.
    pub timeout: Duration,
    pub run: HookRun,
}

named_kinds! {
    /// What a hook precedes or follows.
    HookPhase {
        /// The whole install.
        Install = "install",
        /// The preparation of the operating system of a host.
        System = "system",
        /// The container runtime of a node.
        Runtime = "runtime",
        /// Its host becomes a node.
        Kubernetes = "kubernetes",
        /// The reset of a host.
        Reset = "reset",
    }
}

named_kinds! {
    /// On which side of its phase a hook runs.
    HookTime {
        Before = "before",
        After = "after",
    }
}

named_kinds! {
    /// Which installs run a hook.
    HookRun {
        /// Those that find a host on which the present content has not succeeded yet.
        Changed = "changed",
        /// Every one.
        Always = "always",
    }
}

impl Hook {
    /// Returns true if the host runs the hook.
    pub fn is_for(&self, roles: &Roles, host: &HostName) -> bool {
        roles.select(&self.roles, host)
    }
}
