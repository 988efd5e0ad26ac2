//! Connects to hosts, runs commands on them as root and collects facts about them.

pub mod answers;
mod authenticate;
mod channel;
pub mod command;
pub mod facts;
pub mod forward;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod host_certificate;
pub mod jump;
pub mod known_hosts;
pub mod limit;
pub mod local;
pub mod openssh;
pub mod piped;
pub mod server;
pub mod ssh;
mod supervise;
pub mod tar_stream;
#[cfg(test)]
mod tests;
mod transport;
pub mod upload;

pub use answers::Answers;
pub use command::{Command, Input, Output};
pub use facts::Facts;
pub use forward::{TunnelError, TunnelStream};
pub use jump::JumpHosts;
pub use limit::Limit;
pub use openssh::OpenSsh;
pub use server::Server;
pub use ssh::{SshHost, SshOptions};

use async_trait::async_trait;

use kubexm_types::{HostName, Message, disk_failure};

/// The failure of a connection to a host, or of a command on it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", self.host(), self.message().as_item())]
pub enum HostError {
    /// kubexm cannot connect, or an open connection broke.
    Unreachable {
        host: HostName,
        /// Address and port that kubexm tried.
        address: String,
        /// The cause, and a hint if there is an action.
        reason: Message,
    },
    /// The host's SSH key is unknown, revoked, or differs from the recorded one.
    HostKey {
        host: HostName,
        /// What is wrong with the key, and a hint.
        reason: Message,
    },
    /// The host refused every login method, or sudo failed.
    Denied {
        host: HostName,
        user: String,
        /// Which methods kubexm tried, and a hint if there is an action.
        reason: Message,
    },
    /// A command exceeded its time limit. kubexm has ended it on the host, unless the host does not answer.
    TimedOut {
        host: HostName,
        /// The command's description.
        command: String,
        limit: Limit,
        /// The last lines that the command printed.
        output: String,
    },
    /// A command did not start, or printed too much.
    Command {
        host: HostName,
        /// The command's description, which contains neither its input nor its environment.
        command: String,
        reason: Message,
    },
    /// kubexm cannot read the input that it sends to a command.
    Input {
        host: HostName,
        /// The command's description.
        command: String,
        source: std::io::Error,
    },
}

impl HostError {
    /// Returns the host that failed.
    pub fn host(&self) -> &HostName {
        match self {
            Self::Unreachable { host, .. }
            | Self::HostKey { host, .. }
            | Self::Denied { host, .. }
            | Self::TimedOut { host, .. }
            | Self::Command { host, .. }
            | Self::Input { host, .. } => host,
        }
    }

    /// Returns the cause and what the user can do, without the name of the host.
    pub fn message(&self) -> Message {
        match self {
            Self::Unreachable {
                address, reason, ..
            } => reason
                .clone()
                .within(format_args!("cannot reach {address}")),
            Self::HostKey { reason, .. } => reason.clone(),
            Self::Denied { user, reason, .. } => reason
                .clone()
                .within(format_args!("cannot log in as {user}")),
            Self::TimedOut {
                command,
                limit,
                output,
                ..
            } => Message::new(format!(
                "{command}: exceeded the time limit of {limit}{}",
                last(output)
            ))
            .hint(TIMED_OUT_HINT),
            Self::Command {
                command, reason, ..
            } => reason.clone().within(command),
            Self::Input {
                command, source, ..
            } => Message::new(format!("{command}: cannot read its input: {source}"))
                .or_hint(disk_failure::hint(source)),
        }
    }
}

impl From<&HostError> for Message {
    /// Returns the message with the name of the host.
    fn from(error: &HostError) -> Self {
        error.message().within(error.host())
    }
}

/// What a user can do about a command that did not end.
const TIMED_OUT_HINT: &str = "kubexm ended the command on the host; look at the load, the disks and \
the journal of the host (journalctl -e), then run kubexm again";

/// Returns the last lines of a command's output, below the message of an error.
fn last(output: &str) -> String {
    match output {
        "" => "; it printed nothing".to_owned(),
        lines => format!("; it printed last:\n{lines}"),
    }
}

/// A machine on which commands run as root.
#[async_trait]
pub trait Host: Send + Sync {
    /// Returns the host's name in the cluster file.
    fn name(&self) -> &HostName;

    /// Runs a command as root and waits for its end. A non-zero exit status is not an error here:
    /// the caller checks [`Output::success`] or [`Output::status`].
    ///
    /// The command and its children end on the host when its [`Limit`] strikes. They also end when the returned
    /// future is dropped, unless the command [continues](Command::continues_when_cancelled).
    async fn run(&self, command: Command) -> Result<Output, HostError>;

    /// Waits until the host has received the requests to end the commands whose futures were dropped; at most
    /// a few seconds.
    async fn settle(&self) {}

    /// Opens a TCP connection from the host to `target`, a DNS name or an IP address. The host
    /// resolves the name. The connection needs no program on the host.
    async fn open_tunnel(
        &self,
        target: &str,
        port: u16,
    ) -> Result<Box<dyn TunnelStream>, TunnelError> {
        let _ = (target, port);
        Err(TunnelError::NotAllowed)
    }
}
