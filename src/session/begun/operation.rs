//! The commands that change the hosts of a cluster.

use std::fmt;

listed! {
    /// A command that changes the hosts of a cluster.
    pub enum Operation {
        Install,
        NodeAdd,
        NodeRemove,
        NodeReplace,
        Upgrade,
        /// `upgrade --rollback`.
        Rollback,
        /// `status --fix`.
        StatusFix,
        CertsRenew,
        RotateCas,
        RotateServiceAccountKey,
        BackupCreate,
        BackupRestore,
        Conformance,
        RegistryAdd,
        RegistrySync,
        RegistryRemove,
        RegistryGc,
        /// `registry gc --unused`.
        RegistryGcUnused,
        RegistryMove,
        AppApply,
        AppRemove,
        Reset,
    }
}

impl Operation {
    /// Returns the words of the command line, as in `node add`. The journal, the locks of hosts and refusals have them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::NodeAdd => "node add",
            Self::NodeRemove => "node remove",
            Self::NodeReplace => "node replace",
            Self::Upgrade => "upgrade",
            Self::Rollback => "upgrade --rollback",
            Self::StatusFix => "status --fix",
            Self::CertsRenew => "certs renew",
            Self::RotateCas => "certs rotate-ca",
            Self::RotateServiceAccountKey => "certs rotate-sa-key",
            Self::BackupCreate => "backup create",
            Self::BackupRestore => "backup restore",
            Self::Conformance => "conformance",
            Self::RegistryAdd => "registry add",
            Self::RegistrySync => "registry sync",
            Self::RegistryRemove => "registry remove",
            Self::RegistryGc => "registry gc",
            Self::RegistryGcUnused => "registry gc --unused",
            Self::RegistryMove => "registry move",
            Self::AppApply => "app apply",
            Self::AppRemove => "app remove",
            Self::Reset => "reset",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
