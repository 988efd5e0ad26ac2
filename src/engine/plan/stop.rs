//! How a run ends before its plan does.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use kubexm_types::HostName;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Where conditions cannot come true until people remove a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hopeless {
    /// Where the kubelets of these hosts must work.
    Hosts(BTreeSet<HostName>),
    /// Where a pod of CoreDNS must be ready.
    Dns,
}

/// Stops a run after the steps that are running, or ends conditions that cannot come true. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    all: CancellationToken,
    hopeless: Arc<Mutex<Option<Hopeless>>>,
}

impl Stop {
    /// Returns one that stops nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the run after the steps that are running.
    pub fn cancel(&self) {
        self.all.cancel();
    }

    /// Returns whether the run stops.
    pub fn is_cancelled(&self) -> bool {
        self.all.is_cancelled()
    }

    /// Waits until the run stops.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.all.cancelled()
    }

    /// Sets where conditions cannot come true, instead of what was set before. Those that make no progress fail there without a
    /// further wait. No other work ends.
    pub fn end_waits(&self, hopeless: Option<Hopeless>) {
        *self.hopeless() = hopeless;
    }

    /// Returns whether waits for all of these hosts are to end; `false` for none.
    pub(super) fn ends_waits_on<'a>(&self, hosts: impl IntoIterator<Item = &'a HostName>) -> bool {
        let mut hosts = hosts.into_iter().peekable();
        match &*self.hopeless() {
            Some(Hopeless::Hosts(all)) => {
                hosts.peek().is_some() && hosts.all(|host| all.contains(host))
            }
            Some(Hopeless::Dns) | None => false,
        }
    }

    /// Returns whether waits for a pod of CoreDNS are to end.
    pub(super) fn ends_waits_for_dns(&self) -> bool {
        *self.hopeless() == Some(Hopeless::Dns)
    }

    fn hopeless(&self) -> std::sync::MutexGuard<'_, Option<Hopeless>> {
        // A thread that panicked with the lock leaves a value that is still valid.
        self.hopeless.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
