//! How a run ends before its plan does.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use kubexm_types::HostName;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Stops a run after the steps that are running, or ends conditions that cannot come true. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    all: CancellationToken,
    hopeless: Arc<Mutex<BTreeSet<HostName>>>,
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

    /// Sets the hosts whose state keeps conditions from coming true, instead of those before. Conditions that these hosts alone
    /// miss, and that make no progress, fail without a further wait. No other work ends.
    pub fn end_waits_on(&self, hosts: impl IntoIterator<Item = HostName>) {
        *self.hopeless() = hosts.into_iter().collect();
    }

    /// Returns whether waits for all of these hosts are to end; `false` for none.
    pub(super) fn ends_waits_on<'a>(&self, hosts: impl IntoIterator<Item = &'a HostName>) -> bool {
        let hopeless = self.hopeless();
        let mut hosts = hosts.into_iter().peekable();
        hosts.peek().is_some() && hosts.all(|host| hopeless.contains(host))
    }

    fn hopeless(&self) -> std::sync::MutexGuard<'_, BTreeSet<HostName>> {
        // A thread that panicked with the lock leaves a set that is still valid.
        self.hopeless.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
