//! `spec.system.files`.

use std::path::PathBuf;

use kubexm_kinds::named_kinds;
use kubexm_types::{HostName, HostPath, Secret, UserName};

use super::Roles;

/// A file of the user for hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFile {
    /// The path on the hosts.
    pub path: HostPath,
    pub content: FileSource,
    /// Permission bits, as in 0o600.
    pub mode: u32,
    pub owner: FileOwner,
    /// The roles of the hosts that get the file; empty for all hosts.
    pub roles: Vec<Role>,
}

/// Where the content of a file comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSource {
    /// The cluster file contains it. It may be a secret.
    Content(Secret),
    /// A file on the controller.
    File(PathBuf),
}

/// The owner of a file. Users and groups exist on the hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOwner {
    pub user: UserName,
    /// The group; `None` for the one of root.
    pub group: Option<UserName>,
}

named_kinds! {
    /// Groups of hosts: names in `spec.roleGroups`.
    Role {
        ControlPlane = "control-plane",
        Worker = "worker",
        Etcd = "etcd",
        Registry = "registry",
        LoadBalancer = "loadbalancer",
    }
}

impl Roles {
    /// Returns the hosts of a role.
    pub fn of(&self, role: Role) -> &[HostName] {
        match role {
            Role::ControlPlane => &self.control_plane,
            Role::Worker => &self.worker,
            Role::Etcd => &self.etcd,
            Role::Registry => &self.registry,
            Role::LoadBalancer => &self.load_balancer,
        }
    }

    /// Returns true if the host has one of the roles, or if there are none.
    pub(super) fn select(&self, roles: &[Role], host: &HostName) -> bool {
        let mut roles_of_host = roles.iter();
        roles.is_empty() || roles_of_host.any(|role| self.of(*role).contains(host))
    }
}

impl SiteFile {
    /// Returns true if the host gets the file.
    pub fn is_for(&self, roles: &Roles, host: &HostName) -> bool {
        roles.select(&self.roles, host)
    }

    /// Returns true if users of a host other than the owner and the group cannot read the file.
    pub fn is_secret(&self) -> bool {
        self.mode & 0o004 == 0
    }
}
