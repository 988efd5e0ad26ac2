//! The contract between the executor and the atoms of a deployment.

use async_trait::async_trait;

use crate::seed::SeedError;
use kubexm_host::{Host, HostError, Output};
use kubexm_types::HostPath;
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

/// What a look at the host told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The host is as wanted; applying would change nothing.
    Satisfied,
    /// The host must be changed; the text says why, for `plan` and for logs.
    Needed(String),
}

/// A file that a step puts on its host, for `kubexm render` and for the proofs at build time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// Where it goes.
    pub path: HostPath,
    /// Permission bits, as in 0o644.
    pub mode: u32,
    /// Its text; values that are known only at run time appear as `<words in angle brackets>`.
    pub content: String,
}

/// Where a step writes down, before it changes something, how to take that change back.
#[async_trait]
pub trait UndoLog: Send + Sync {
    /// Appends an undo record to the host's receipt. Called before the change, so that a change
    /// that was cut off halfway can be taken back too; records must therefore be harmless when
    /// the change never happened.
    async fn record(&self, step: &str, undo: serde_json::Value) -> Result<(), StepError>;
}

/// What a step works with.
pub struct StepContext<'a> {
    /// The step's host.
    pub host: &'a dyn Host,
    /// The host's receipt.
    pub undo: &'a dyn UndoLog,
    /// For bytes on their way.
    pub events: &'a Events,
}

/// An atom of a deployment on one host. Idempotent: after `apply`, `check` is satisfied.
#[async_trait]
pub trait Step: Send + Sync {
    /// Stable name within the host, such as `file /etc/containerd/config.toml`.
    fn id(&self) -> String;

    /// One line that a tired operator understands, such as "Write /etc/containerd/config.toml".
    fn describe(&self) -> String;

    /// The files it puts on the host, where their text is known before the run.
    fn files(&self) -> Vec<RenderedFile> {
        Vec::new()
    }

    /// Looks at the host, changes nothing.
    async fn check(&self, context: &StepContext<'_>) -> Result<Check, StepError>;

    /// Makes the host as wanted, after recording how to take it back.
    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError>;
}
