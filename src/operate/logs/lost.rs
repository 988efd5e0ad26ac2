//! Hosts that `logs --follow` lost, and new connections to them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use kubexm_host::HostError;
use kubexm_session::CommandError;
use kubexm_session::session::{HostErrors, Hosts, PARALLEL};
use kubexm_types::HostName;

/// How long kubexm waits before it connects again to a host.
pub(super) const PAUSE: Duration = Duration::from_secs(5);
/// How many pauses it waits after the host refused the login. A host that starts refuses it for some seconds, and some hosts
/// lock out users who try often.
const REFUSED: u32 = 12;

/// Connects to one host.
pub(super) type Connect = Arc<
    dyn Fn(HostName) -> BoxFuture<'static, Result<(Hosts, HostErrors), CommandError>> + Send + Sync,
>;

/// Hosts to which kubexm tries to connect.
pub(super) struct Lost {
    connect: Connect,
    pause: Duration,
    attempts: JoinSet<Result<Hosts, CommandError>>,
    /// Limits the connections at the same time.
    permits: Arc<Semaphore>,
}

impl Lost {
    pub fn new(connect: Connect, pause: Duration) -> Self {
        Self {
            connect,
            pause,
            attempts: JoinSet::new(),
            permits: Arc::new(Semaphore::new(PARALLEL)),
        }
    }

    /// Tries to connect to a host again and again, while other hosts are read.
    pub fn search(&mut self, host: HostName) {
        let (connect, permits) = (Arc::clone(&self.connect), Arc::clone(&self.permits));
        let pause = self.pause;
        self.attempts.spawn(async move {
            let mut pauses = 1;
            loop {
                tokio::time::sleep(pause * pauses).await;
                let _permit = permits.acquire().await;
                let (found, errors) = connect(host.clone()).await?;
                pauses = match errors.into_iter().next() {
                    None => return Ok(found),
                    Some((_, HostError::Unreachable { .. })) => 1,
                    Some((_, HostError::Denied { .. })) => REFUSED,
                    Some((_, error)) => return Err(CommandError::Hosts(vec![error])),
                };
            }
        });
    }

    /// Returns the connections since the last time, and why kubexm gave up other hosts.
    pub fn found(&mut self) -> (Hosts, Vec<CommandError>) {
        let (mut hosts, mut errors) = (Hosts::new(), Vec::new());
        while let Some(attempt) = self.attempts.try_join_next() {
            match attempt {
                Ok(Ok(found)) => hosts.extend(found),
                Ok(Err(error)) => errors.push(error),
                Err(defect) => errors.push(CommandError::defect(format!(
                    "cannot connect again: {defect}"
                ))),
            }
        }
        (hosts, errors)
    }
}
