//! The contract between the executor and the steps of a deployment.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::file::PlannedFile;
use crate::seed::SeedError;
use kubexm_host::{Host, HostError, Output};
use kubexm_types::event::Events;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The host, or the way to it, failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A command of the step ended with a non-zero status.
    #[error("{action} failed (exit status {status}):\n{complaint}")]
    Command {
        /// What was being done.
        action: String,
        /// Exit status.
        status: i32,
        /// The last lines the command printed.
        complaint: String,
    },
    /// The bundle could not give what the step needs.
    #[error(transparent)]
    Bundle(#[from] kubexm_bundle::BundleError),
    /// A value that another task should have given is not there.
    #[error("the value '{0}' was not given by an earlier task")]
    Missing(&'static str),
    /// Anything else, in words that say what, where and what to do.
    #[error("{0}")]
    Other(String),
}

impl From<SeedError> for StepError {
    fn from(error: SeedError) -> Self {
        match error {
            SeedError::Host(error) => Self::Host(error),
            SeedError::Bundle(error) => Self::Bundle(error),
            other => Self::Other(other.to_string()),
        }
    }
}

impl StepError {
    /// Whether the connection to the host broke.
    pub fn is_loss_of_host(&self) -> bool {
        matches!(self, Self::Host(HostError::Unreachable { .. }))
    }

    /// The output of a command that must have succeeded; else what it complained of while doing
    /// `action`.
    pub fn unless_done(action: &str, output: Output) -> Result<Output, Self> {
        if output.success() {
            return Ok(output);
        }
        Err(Self::Command {
            action: action.to_owned(),
            status: output.status,
            complaint: output.complaint(),
        })
    }
}

/// What a check of an [`Ensure`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The host is in the desired state.
    Satisfied,
    /// The host must be changed; the text says why, for `plan --diff` and for logs.
    Needed(String),
}

/// What one poll of a [`Wait`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The condition holds.
    Met,
    /// The condition does not hold yet; the text says what is missing.
    Unmet(String),
}

/// The receipt of a host, as an [`Ensure`] sees it.
#[async_trait]
pub trait UndoLog: Send + Sync {
    /// Appends an undo record to the host's receipt. A step calls it before the change, so that an
    /// interrupted change can be reverted too. A record must be harmless when the change never
    /// happened.
    async fn record(&self, step: &str, undo: serde_json::Value) -> Result<(), StepError>;
}

/// What [`Ensure::apply`] works with.
pub struct StepContext<'a> {
    /// The step's host.
    pub host: &'a dyn Host,
    /// The host's receipt.
    pub undo: &'a dyn UndoLog,
    /// Receives the progress of transfers.
    pub events: &'a Events,
}

/// What steps of every kind say about themselves.
pub trait Describe: Send + Sync {
    /// Returns a stable name within the host, such as `file /etc/containerd/config.toml`.
    fn id(&self) -> String;

    /// Returns one line for the operator, such as "Write /etc/containerd/config.toml".
    fn describe(&self) -> String;

    /// Returns the files that the step puts on the host.
    fn files(&self) -> Vec<PlannedFile> {
        Vec::new()
    }
}

/// A state of the host. The executor checks it, and applies it only where it is needed.
///
/// After `apply`, `check` returns [`Check::Satisfied`].
#[async_trait]
pub trait Ensure: Describe {
    /// Compares the host with the desired state. It must not change anything, since
    /// `plan --diff` calls it on running hosts.
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError>;

    /// Produces the desired state. It first records in `context.undo` how to revert the change.
    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError>;
}

/// Work that runs once in every plan that contains it: it mints a token or fetches a file.
///
/// What an action makes is short-lived or belongs to the cluster, so there is no undo record.
#[async_trait]
pub trait Action: Describe {
    /// Runs the action.
    async fn run(&self, host: &dyn Host) -> Result<(), StepError>;

    /// Returns the names of the [slots](super::Slot) that the action fills.
    fn gives(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// A condition that the executor polls until it holds or the limit is reached.
#[async_trait]
pub trait Wait: Describe {
    /// Returns how long the executor polls.
    fn limit(&self) -> Duration;

    /// Tests the condition once. It must not change anything.
    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError>;

    /// Collects what helps to find the cause when the limit is reached.
    async fn diagnose(&self, host: &dyn Host) -> Result<String, StepError>;
}

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// See [`Ensure`].
    Ensure,
    /// See [`Action`].
    Action,
    /// See [`Wait`].
    Wait,
}

/// A step on one host. The executor treats each kind differently.
///
/// The type of a step decides its kind. A file is a state:
///
/// ```
/// fn check_and_apply(_: &impl kubexm_engine::plan::Ensure) {}
/// let host_path = kubexm_types::HostPath::parse("/etc/motd").unwrap();
/// check_and_apply(&kubexm_engine::steps::WriteFile::new(host_path, "welcome"));
/// ```
///
/// A script that makes a value is an action. It has no `check` that could run it by mistake:
///
/// ```compile_fail
/// fn check_and_apply(_: &impl kubexm_engine::plan::Ensure) {}
/// fn mint(token: &kubexm_engine::steps::Produce<String>) {
///     check_and_apply(token);
/// }
/// ```
pub enum Step {
    /// See [`Ensure`].
    Ensure(Box<dyn Ensure>),
    /// See [`Action`].
    Action(Box<dyn Action>),
    /// See [`Wait`].
    Wait(Box<dyn Wait>),
}

impl Step {
    fn about(&self) -> &dyn Describe {
        match self {
            Self::Ensure(step) => step.as_ref(),
            Self::Action(step) => step.as_ref(),
            Self::Wait(step) => step.as_ref(),
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Ensure(_) => Kind::Ensure,
            Self::Action(_) => Kind::Action,
            Self::Wait(_) => Kind::Wait,
        }
    }

    /// Returns a stable name within the host.
    pub fn id(&self) -> String {
        self.about().id()
    }

    /// Returns one line for the operator.
    pub fn describe(&self) -> String {
        self.about().describe()
    }

    /// Returns the files that the step puts on the host.
    pub fn files(&self) -> Vec<PlannedFile> {
        self.about().files()
    }

    /// Returns the names of the slots that the step fills.
    pub fn gives(&self) -> Vec<&'static str> {
        match self {
            Self::Action(action) => action.gives(),
            Self::Ensure(_) | Self::Wait(_) => Vec::new(),
        }
    }
}
