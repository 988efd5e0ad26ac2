//! Messages about work that makes no progress.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use kubexm_types::HostName;
use kubexm_types::event::{Event, Events, Listener};

/// Time without progress after which a message names what kubexm waits for, and the time between two such
/// messages.
pub const SILENCE: Duration = Duration::from_secs(30);

/// Observes the progress of work.
pub struct Watch {
    events: Events,
    host: Option<HostName>,
    /// What the work is, as in "Run kubeadm init".
    what: String,
    state: Mutex<State>,
}

struct State {
    progressed: Instant,
    missing: Option<String>,
}

impl Watch {
    /// Starts to observe work on a host.
    pub fn new(events: &Events, host: &HostName, what: impl Into<String>) -> Arc<Self> {
        Self::of(events, Some(host.clone()), what)
    }

    /// Starts to observe work that is not on a host of the cluster.
    pub fn without_host(events: &Events, what: impl Into<String>) -> Arc<Self> {
        Self::of(events, None, what)
    }

    fn of(events: &Events, host: Option<HostName>, what: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            events: events.clone(),
            host,
            what: what.into(),
            state: Mutex::new(State {
                progressed: Instant::now(),
                missing: None,
            }),
        })
    }

    /// Returns a handle for the events of the work. Each event counts as progress.
    pub fn events(self: &Arc<Self>) -> Events {
        self.events.through(Arc::clone(self) as Arc<dyn Listener>)
    }

    /// Records what a condition is missing. A change of it counts as progress.
    pub fn missing(&self, missing: &str) {
        self.change(|state| {
            if state.missing.as_deref() != Some(missing) {
                state.missing = Some(missing.to_owned());
                state.progressed = Instant::now();
            }
        });
    }

    /// Returns whether the work has made no progress for [`SILENCE`].
    pub fn is_silent(&self) -> bool {
        self.state().progressed.elapsed() >= SILENCE
    }

    /// Runs the work, and emits [`Event::Waiting`] whenever it makes no progress for [`SILENCE`].
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let mut reported = self.state().progressed;
        loop {
            let progressed = self.state().progressed;
            let due = progressed.max(reported) + SILENCE;
            tokio::select! {
                result = &mut work => return result,
                () = tokio::time::sleep_until(due) => {}
            }
            if self.state().progressed == progressed {
                reported = due;
                self.emit();
            }
        }
    }

    fn emit(&self) {
        let (elapsed, missing) = {
            let state = self.state();
            (state.progressed.elapsed(), state.missing.clone())
        };
        self.events.emit(Event::Waiting {
            host: self.host.clone(),
            what: self.what.clone(),
            missing,
            elapsed,
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A thread that panicked with the lock leaves values that are still valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Watch {
    fn on(&self, event: &Event) {
        self.change(|state| state.progressed = Instant::now());
        self.events.emit(event.clone());
    }
}
