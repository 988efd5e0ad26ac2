//! SSH servers and the way to them.

use std::fmt;
use std::path::PathBuf;

use super::HostError;
use kubexm_types::{HostName, Message, Secret};

/// The port of SSH servers. Records of their keys name another one only.
pub(super) const DEFAULT_PORT: u16 = 22;

/// An SSH server, and how to log in to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// DNS name or IP address.
    pub address: String,
    pub port: u16,
    pub user: String,
    /// The password for SSH. For a host of the cluster, it is also the password for sudo.
    pub password: Option<Secret>,
    /// The private key. Without it, kubexm tries the user's own keys and ssh-agent.
    pub private_key: Option<PathBuf>,
}

/// Formats the address and the port.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.address.contains(':') {
            write!(f, "[{}]:{}", self.address, self.port)
        } else {
            write!(f, "{}:{}", self.address, self.port)
        }
    }
}

/// The failure of a connection to a server, of the check of its key, or of the login.
#[derive(Debug, Clone)]
pub(super) enum ServerError {
    /// kubexm cannot connect, or the connection broke.
    Unreachable(Message),
    /// The server's key is unknown, revoked, or differs from the recorded one.
    HostKey(Message),
    /// The server refused every login method, or sudo failed.
    Denied { user: String, reason: Message },
}

impl ServerError {
    /// Puts text before the cause.
    pub fn within(self, context: &str) -> Self {
        match self {
            Self::Unreachable(reason) => Self::Unreachable(reason.within(context)),
            Self::HostKey(reason) => Self::HostKey(reason.within(context)),
            Self::Denied { user, reason } => Self::Denied {
                user,
                reason: reason.within(context),
            },
        }
    }

    /// Returns the error of the connection to a host of the cluster. `through` is the last jump host on the way.
    pub fn of(self, host: &HostName, server: &Server, through: Option<&Server>) -> HostError {
        let host = host.clone();
        match self {
            Self::Unreachable(reason) => HostError::Unreachable {
                host,
                address: match through {
                    Some(jump) => format!("{server} through the jump host {jump}"),
                    None => server.to_string(),
                },
                reason,
            },
            Self::HostKey(reason) => HostError::HostKey { host, reason },
            Self::Denied { user, reason } => HostError::Denied { host, user, reason },
        }
    }
}
