//! Events: what happens while a command runs, as data. Crates emit events; the CLI reports them.

mod offers;
mod printable;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

pub use self::offers::Offers;
use crate::message::Listed;
use crate::{ErrorKind, FindingKind, HostName, Message, WarningKind};

/// One event. `--output json` prints it as one line.
///
/// A variant must not contain a secret: events go to terminals, files and other programs.
#[derive(Debug, Clone, Serialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub enum Event {
    /// A phase of the command began: "resolve", "download", "pack", "preflight"…
    Phase {
        /// A short name.
        name: String,
    },
    /// A transfer of bytes began.
    TransferStarted {
        /// Identifies the transfer in later events.
        id: u64,
        /// The kind: "download", "pack", "push", "seed".
        kind: &'static str,
        /// The name of the file or image, with the host if there is one.
        label: String,
        /// The expected number of bytes, if it is known.
        total: Option<u64>,
    },
    /// A transfer advanced.
    TransferAdvanced {
        id: u64,
        /// The number of bytes since the last event of the transfer.
        bytes: u64,
    },
    /// A transfer ended.
    TransferEnded {
        id: u64,
        /// Whether all bytes arrived and have the expected digest.
        ok: bool,
    },
    /// Progress of the whole command. `total` may grow while more work is found.
    Progress {
        /// The counted items: "steps", "downloads".
        what: String,
        /// The number of finished items.
        done: u64,
        /// The number of known items.
        total: u64,
    },
    /// A step on a host changed its state.
    Step {
        host: HostName,
        /// The module, as in `plan`.
        module: String,
        /// The task within the module.
        task: String,
        /// The one-line description of the step.
        step: String,
        #[serde(flatten)]
        state: StepState,
        /// Time since the step began, in seconds with milliseconds.
        #[serde(serialize_with = "seconds")]
        elapsed: Duration,
    },
    /// Work has made no progress for 30 seconds. The event is repeated every 30 seconds.
    Waiting {
        /// The host on which it is; `None` for work without one, such as verifying a bundle.
        host: Option<HostName>,
        /// The work that kubexm waits for: the one-line description of a step, "connect", a command.
        what: String,
        /// What a condition is still missing.
        missing: Option<String>,
        /// Time since the last progress, in seconds with milliseconds.
        #[serde(serialize_with = "seconds")]
        elapsed: Duration,
    },
    /// A task of a plan that is only shown (`install --dry-run`), in an order in which it can run.
    Planned {
        host: HostName,
        module: String,
        /// The task within the module.
        task: String,
        /// The one-line descriptions of the steps.
        steps: Vec<String>,
    },
    /// Preflight found that a host does not meet a requirement.
    Finding {
        host: HostName,
        /// What the check is about.
        kind: FindingKind,
        /// Whether the finding prevents the install.
        fatal: bool,
        /// The problem.
        what: String,
        /// What the user can do.
        hint: String,
    },
    /// The result of an install or a reset that succeeded.
    Summary {
        /// Steps that changed a host, or changes that were reverted.
        changed: usize,
        /// Steps that found the desired state on the host.
        unchanged: usize,
        /// Actions that ran, such as fetching the kubeconfig.
        ran: usize,
        /// Path of the administrator's kubeconfig.
        kubeconfig: Option<String>,
        /// What the cluster has, after an install that asked it.
        #[serde(skip_serializing_if = "Option::is_none")]
        offers: Option<Offers>,
    },
    /// A bundle was written and has its final name.
    Written {
        /// The file, or the name of the volumes without their numbers.
        path: String,
        /// Size in bytes, of all volumes together.
        size: u64,
        /// SHA-256 of the file, or of the concatenated volumes; 64 hexadecimal digits.
        sha256: String,
        /// The number of volumes, if the bundle was split.
        volumes: Option<u64>,
    },
    /// The command ended. This is always the last event.
    End {
        /// Whether the command succeeded.
        ok: bool,
        /// The exit code of the process.
        exit_code: u8,
        /// Why the command did not succeed.
        kind: Option<ErrorKind>,
        /// What failed, where and why.
        message: Option<String>,
        /// What the user can do.
        hint: Option<String>,
        /// Each failure, if the message is a list of several.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        problems: Vec<Listed>,
    },
    /// A warning, which does not stop the command.
    Warning {
        /// What the warning is about.
        kind: WarningKind,
        /// One or more sentences.
        message: String,
        /// What the user can do.
        hint: Option<String>,
    },
    /// A note for the user.
    Note {
        /// One or more sentences.
        message: String,
    },
}

/// The state of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum StepState {
    /// The step runs.
    Started,
    /// The host already has the desired state.
    Unchanged,
    /// The step changed the host.
    Changed,
    /// The action ran; an action has no state to compare.
    Ran,
    /// The awaited condition is met.
    Met,
    /// The change was reverted (`reset`).
    Reverted,
    /// The step failed.
    Failed {
        /// The kind of the failure.
        kind: ErrorKind,
        /// What failed and why.
        reason: String,
        /// What the user can do.
        hint: Option<String>,
    },
}

impl StepState {
    /// Returns the state of a step with this error.
    pub fn failed(kind: ErrorKind, error: impl Into<Message>) -> Self {
        let Message { text, hint, .. } = error.into();
        Self::Failed {
            kind,
            reason: text,
            hint,
        }
    }
}

fn seconds<S: serde::Serializer>(elapsed: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((elapsed.as_secs_f64() * 1000.0).round() / 1000.0)
}

/// A receiver of events. Many threads call it, in no order between them. It must not block for long.
pub trait Listener: Send + Sync {
    /// Handles an event.
    fn on(&self, event: &Event);
}

/// The handle that emits events; cheap to clone.
#[derive(Clone)]
pub struct Events {
    listener: Arc<dyn Listener>,
    next: Arc<AtomicU64>,
}

impl Events {
    /// Creates a handle whose events go to `listener`.
    pub fn new(listener: Arc<dyn Listener>) -> Self {
        Self {
            listener,
            next: Arc::new(AtomicU64::new(1)),
        }
    }

    /// Returns a handle whose events go to another listener. The ids of transfers stay unique among both handles.
    #[must_use]
    pub fn through(&self, listener: Arc<dyn Listener>) -> Self {
        Self {
            listener,
            next: Arc::clone(&self.next),
        }
    }

    /// Creates a handle that discards all events.
    pub fn silent() -> Self {
        struct Discard;
        impl Listener for Discard {
            fn on(&self, _: &Event) {}
        }
        Self::new(Arc::new(Discard))
    }

    /// Emits an event. Its texts may quote hosts and servers, so every listener gets them as
    /// [`message`](crate::untrusted::message) returns them.
    pub fn emit(&self, event: Event) {
        self.listener.on(&event.printable());
    }

    /// Emits [`Event::Phase`].
    pub fn phase(&self, name: &str) {
        self.emit(Event::Phase {
            name: name.to_owned(),
        });
    }

    /// Emits [`Event::Warning`].
    pub fn warn(&self, kind: WarningKind, message: impl Into<Message>) {
        let Message { text, hint, .. } = message.into();
        self.emit(Event::Warning {
            kind,
            message: text,
            hint,
        });
    }

    /// Emits [`Event::End`].
    pub fn end(&self, exit_code: u8, kind: Option<ErrorKind>, message: Option<Message>) {
        let problems = message.as_ref().map_or_else(Vec::new, Message::listed);
        let (message, hint) = message.map_or((None, None), |said| (Some(said.text), said.hint));
        self.emit(Event::End {
            ok: exit_code == 0,
            exit_code,
            kind,
            message,
            hint,
            problems,
        });
    }

    /// Emits [`Event::Note`].
    pub fn note(&self, message: impl Into<String>) {
        self.emit(Event::Note {
            message: message.into(),
        });
    }

    /// Emits [`Event::TransferStarted`]. The guard emits the other events of the transfer; if it is dropped without
    /// [`Transfer::done`], the transfer has failed.
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

/// A transfer of bytes.
pub struct Transfer {
    events: Events,
    id: u64,
    ok: bool,
}

impl Transfer {
    /// Emits the number of further bytes.
    pub fn advance(&self, bytes: u64) {
        self.events
            .emit(Event::TransferAdvanced { id: self.id, bytes });
    }

    /// Ends the transfer with success.
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
