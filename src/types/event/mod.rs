//! What happens while kubexm works, as data. Rooms tell; `report` listens.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::HostName;

/// One thing that happened. Serialised, it is a line of `--output json`.
///
/// No variant may carry a secret: events go to terminals, files and other programs.
#[derive(Debug, Clone, Serialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub enum Event {
    /// A stretch of work began: "resolve", "download", "pack", "preflight"…
    Phase {
        /// Short name, a verb of the command's own.
        name: String,
    },
    /// Bytes began to move.
    TransferStarted {
        /// Tells transfers apart.
        id: u64,
        /// What kind: "download", "pack", "push", "seed".
        kind: &'static str,
        /// What moves: a file's or an image's name, with the host where there is one.
        label: String,
        /// Bytes to come, where known.
        total: Option<u64>,
    },
    /// Bytes moved.
    TransferAdvanced {
        /// The transfer.
        id: u64,
        /// Bytes since its last event.
        bytes: u64,
    },
    /// The transfer ended.
    TransferEnded {
        /// The transfer.
        id: u64,
        /// Whether all bytes arrived and were right.
        ok: bool,
    },
    /// How much of the whole command is done. `total` may grow while work is being found.
    Progress {
        /// What is counted: "steps", "downloads".
        what: String,
        /// How many are finished.
        done: u64,
        /// How many are known.
        total: u64,
    },
    /// A step on a host changed its state.
    Step {
        /// The host.
        host: HostName,
        /// The module, as in `plan`.
        module: String,
        /// The task within the module.
        task: String,
        /// The step's one-line description.
        step: String,
        /// What became of it.
        #[serde(flatten)]
        state: StepState,
        /// Time since the step began.
        #[serde(serialize_with = "seconds")]
        elapsed: Duration,
    },
    /// A task of a plan that is only shown (`install --dry-run`), in an order in which it can run.
    Planned {
        /// The host.
        host: HostName,
        /// The module.
        module: String,
        /// The task within the module.
        task: String,
        /// Its steps' one-line descriptions.
        steps: Vec<String>,
    },
    /// Something about a host that is not as an install needs it.
    Finding {
        /// The host.
        host: HostName,
        /// Whether the install cannot go on.
        fatal: bool,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
    /// What an install or a reset did; only where it came through.
    Summary {
        /// Steps that changed a host, or changes that were taken back.
        changed: usize,
        /// Steps that found the desired state on the host.
        unchanged: usize,
        /// Actions that ran, such as fetching the kubeconfig.
        ran: usize,
        /// Where the administrator's kubeconfig is.
        kubeconfig: Option<String>,
    },
    /// A bundle stands under its final name.
    Written {
        /// The file, or what its volumes are called without their numbers.
        path: String,
        /// Bytes, of all volumes together.
        size: u64,
        /// SHA-256 of the file, or of all volumes one after another; 64 hexadecimal digits.
        sha256: String,
        /// How many volumes there are, where it was split.
        volumes: Option<u64>,
    },
    /// The command ended: always its last event.
    End {
        /// Whether all is well.
        ok: bool,
        /// The process's exit code.
        exit_code: u8,
        /// Why it failed, where it did: the text that people get.
        message: Option<String>,
    },
    /// Something the user should know that does not stop the work.
    Warning {
        /// One or more sentences.
        message: String,
    },
    /// Something worth a line.
    Note {
        /// One or more sentences.
        message: String,
    },
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "kebab-case")]
pub enum StepState {
    /// It runs.
    Started,
    /// The host already had the desired state.
    Unchanged,
    /// The host was changed.
    Changed,
    /// The action ran; an action has no state to compare.
    Ran,
    /// The condition that was waited for holds.
    Met,
    /// It was taken back (`reset`).
    Reverted,
    /// It failed; the text is the error's.
    Failed(String),
}

fn seconds<S: serde::Serializer>(elapsed: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((elapsed.as_secs_f64() * 1000.0).round() / 1000.0)
}

/// Somebody who is told. Called from many threads, in no order between them; must not block long.
pub trait Listener: Send + Sync {
    /// Takes notice of an event.
    fn on(&self, event: &Event);
}

/// The handle by which rooms tell what happens; cheap to clone.
#[derive(Clone)]
pub struct Events {
    listener: Arc<dyn Listener>,
    next: Arc<AtomicU64>,
}

impl Events {
    /// Events that `listener` hears.
    pub fn new(listener: Arc<dyn Listener>) -> Self {
        Self {
            listener,
            next: Arc::new(AtomicU64::new(1)),
        }
    }

    /// Events that nobody hears.
    pub fn silent() -> Self {
        struct Nobody;
        impl Listener for Nobody {
            fn on(&self, _: &Event) {}
        }
        Self::new(Arc::new(Nobody))
    }

    /// Tells an event.
    pub fn emit(&self, event: Event) {
        self.listener.on(&event);
    }

    /// Tells that a phase began.
    pub fn phase(&self, name: &str) {
        self.emit(Event::Phase {
            name: name.to_owned(),
        });
    }

    /// Tells a warning.
    pub fn warn(&self, message: impl Into<String>) {
        self.emit(Event::Warning {
            message: message.into(),
        });
    }

    /// Tells how the command ended.
    pub fn end(&self, exit_code: u8, message: Option<String>) {
        self.emit(Event::End {
            ok: exit_code == 0,
            exit_code,
            message,
        });
    }

    /// Tells a note.
    pub fn note(&self, message: impl Into<String>) {
        self.emit(Event::Note {
            message: message.into(),
        });
    }

    /// Tells that bytes begin to move; the guard tells the rest, and "failed" when it is dropped
    /// without [`Transfer::done`].
    pub fn transfer(
        &self,
        kind: &'static str,
        label: impl Into<String>,
        total: Option<u64>,
    ) -> Transfer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.emit(Event::TransferStarted {
            id,
            kind,
            label: label.into(),
            total,
        });
        Transfer {
            events: self.clone(),
            id,
            ok: false,
        }
    }
}

/// Counts the items of a command that are finished, and reports each as [`Event::Progress`].
pub struct Counter {
    events: Events,
    what: &'static str,
    counts: Mutex<(u64, u64)>,
}

impl Counter {
    /// Creates a counter without items.
    pub fn new(events: Events, what: &'static str) -> Self {
        Self {
            events,
            what,
            counts: Mutex::default(),
        }
    }

    /// Adds items that are known from now on.
    pub fn expect(&self, items: usize) {
        self.add(0, items as u64);
    }

    /// Counts one finished item.
    pub fn advance(&self) {
        self.add(1, 0);
    }

    fn add(&self, done: u64, total: u64) {
        // A thread that panicked with the lock leaves two numbers that are still valid.
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.0 += done;
        counts.1 += total;
        // Emitted under the lock, so that the numbers never decrease.
        self.events.emit(Event::Progress {
            what: self.what.to_owned(),
            done: counts.0,
            total: counts.1,
        });
    }
}

/// Bytes on their way.
pub struct Transfer {
    events: Events,
    id: u64,
    ok: bool,
}

impl Transfer {
    /// So many more bytes moved.
    pub fn advance(&self, bytes: u64) {
        self.events
            .emit(Event::TransferAdvanced { id: self.id, bytes });
    }

    /// All arrived.
    pub fn done(mut self) {
        self.ok = true;
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.events.emit(Event::TransferEnded {
            id: self.id,
            ok: self.ok,
        });
    }
}
