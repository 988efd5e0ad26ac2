//! A machine of the cluster: connect to it, run commands as root, learn its facts.

mod authenticate;
mod channel;
pub mod command;
mod dial;
pub mod facts;
pub mod forward;
pub mod known_hosts;
pub mod local;
pub mod piped;
pub mod ssh;
pub mod tar_stream;
pub mod upload;

pub use command::{Command, Input, Output};
pub use facts::Facts;
pub use forward::{DialError, Line};
pub use ssh::{SshHost, SshOptions};

use async_trait::async_trait;

use kubexm_types::HostName;

/// What can go wrong between kubexm and a host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No connection, or it broke: the host is down, the port is closed, the line dropped.
    #[error("{host}: cannot reach {address}: {reason}")]
    Unreachable {
        /// The host.
        host: HostName,
        /// Address and port that were tried.
        address: String,
        /// The system's words, and what to try.
        reason: String,
    },
    /// The host's key is unknown or another than the recorded one.
    #[error("{host}: {reason}")]
    HostKey {
        /// The host.
        host: HostName,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The host let nobody in, or sudo refused.
    #[error("{host}: cannot log in as {user}: {reason}")]
    Denied {
        /// The host.
        host: HostName,
        /// The user that was tried.
        user: String,
        /// Which methods were tried and what to do.
        reason: String,
    },
    /// A command could not be started, was killed by a signal or ran out of its time.
    #[error("{host}: {command}: {reason}")]
    Command {
        /// The host.
        host: HostName,
        /// The command's description (never its input or environment).
        command: String,
        /// What happened.
        reason: String,
    },
    /// The input that was to be sent could not be read.
    #[error("{host}: {command}: cannot read what is to be sent: {source}")]
    Input {
        /// The host.
        host: HostName,
        /// The command's description.
        command: String,
        /// The reader's error.
        source: std::io::Error,
    },
}

/// A machine on which commands run as root.
#[async_trait]
pub trait Host: Send + Sync {
    /// Its name in the cluster.
    fn name(&self) -> &HostName;

    /// Runs a command as root and waits for its end. A non-zero exit status is no error here: the
    /// caller decides, with [`Output::success`] or [`Output::status`].
    async fn run(&self, command: Command) -> Result<Output, HostError>;

    /// Opens a TCP connection from the host to `target`, a DNS name or an IP address, as the host
    /// resolves it. Needs no program there.
    async fn dial(&self, target: &str, port: u16) -> Result<Box<dyn Line>, DialError> {
        let _ = (target, port);
        Err(DialError::NotAllowed)
    }
}
