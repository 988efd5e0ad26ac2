//! Hosts over SSH: one connection per host, one channel per command.

mod login_shell;
mod options;
mod recording;
mod root;
mod session;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::options::SshOptions;
use self::session::{Call, MARK, Session};
use super::supervise::{self, Description, NoResult, Received};
use super::{Command, Host, HostError, Output, TunnelError, TunnelStream};
use kubexm_types::HostName;

/// The time that kubexm waits for the requests that end cancelled commands, before it ends itself.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connected host.
pub struct SshHost {
    session: Arc<Session>,
}

impl SshHost {
    /// Connects, verifies the host's key, logs in, and determines how commands get root's permissions.
    pub async fn connect(options: SshOptions) -> Result<Self, HostError> {
        let session = Session::connect(options).await?;
        Ok(Self {
            session: Arc::new(session),
        })
    }

    /// Ends the connection.
    pub async fn disconnect(&self) {
        self.session.wire().end().await;
    }
}

/// A command that runs on a host, as a task that owns the channel. When this value is dropped before the end of
/// the command, the task ends the command on the host, or leaves it alone if it must continue.
struct Running {
    task: JoinHandle<(Result<i32, HostError>, Received)>,
    cancel: CancellationToken,
    continues: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.continues {
            self.task.abort()
        } else {
            self.cancel.cancel()
        }
    }
}

#[async_trait]
impl Host for SshHost {
    fn name(&self) -> &HostName {
        self.session.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let (session, limit) = (&self.session, command.limit);
        let described = Description::of(&command);
        let (line, prefix) = session.as_root(&supervise::words(&command));
        let call = Call {
            line,
            input: command.input,
            prefix,
            description: described.text.clone(),
        };
        let cancel = CancellationToken::new();
        let exchange = {
            let (session, cancel) = (Arc::clone(session), cancel.clone());
            async move {
                let mut received = Received::after_mark(MARK);
                let result = session.exchange(call, &mut received, &cancel).await;
                (result, received)
            }
        };
        let mut running = Running {
            task: session.commands().spawn(exchange),
            cancel,
            continues: command.continues,
        };
        let within = limit.time() + supervise::MARGIN;
        let (ended, in_time) = match tokio::time::timeout(within, &mut running.task).await {
            Ok(ended) => (ended, true),
            Err(_) => {
                // The host did not end the command. The task returns what it has printed.
                running.cancel.cancel();
                ((&mut running.task).await, false)
            }
        };
        let host = session.name();
        let (result, mut received) = ended.map_err(|error| {
            session.command_error(&described.text, format!("a defect of kubexm: {error}"))
        })?;
        let result = if in_time {
            received.output(result?, limit)
        } else {
            Err(NoResult::TimedOut)
        };
        result.map_err(|cause| supervise::error(host, described, &received, cause))
    }

    async fn settle(&self) {
        let commands = self.session.commands();
        commands.close();
        let _ = tokio::time::timeout(SETTLE_TIMEOUT, commands.wait()).await;
        commands.reopen();
    }

    async fn open_tunnel(
        &self,
        target: &str,
        port: u16,
    ) -> Result<Box<dyn TunnelStream>, TunnelError> {
        self.session.wire().open_tunnel(target, port).await
    }
}
