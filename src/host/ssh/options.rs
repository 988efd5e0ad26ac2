//! How to connect to a host over SSH.

use crate::HostError;
use crate::jump::JumpHosts;
use crate::known_hosts::HostKeys;
use crate::openssh::OpenSsh;
use crate::server::{Server, ServerError};
use kubexm_types::{HostName, Message};

/// How to connect to a host.
#[derive(Debug, Clone)]
pub struct SshOptions {
    /// The host's name in the cluster file.
    pub name: HostName,
    pub server: Server,
    /// How the system's `ssh` connects; `None` for the connection of kubexm.
    pub openssh: Option<OpenSsh>,
    /// The jump hosts on the way to the server, the nearest one first.
    pub way: Vec<Server>,
    /// Connections to jump hosts, shared between hosts.
    pub jump_hosts: JumpHosts,
    /// Which host keys are accepted.
    pub host_keys: HostKeys,
}

impl SshOptions {
    pub(super) fn error(&self, error: ServerError) -> HostError {
        error.of(&self.name, &self.server, self.way.last())
    }

    pub(super) fn unreachable(&self, reason: Message) -> HostError {
        self.error(ServerError::Unreachable(reason))
    }

    pub(super) fn denied(&self, reason: Message) -> HostError {
        let user = self.server.user.clone();
        self.error(ServerError::Denied { user, reason })
    }
}
