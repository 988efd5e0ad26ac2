//! The contract between the executor and the steps of a deployment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::file::PlannedFile;
use crate::seed::SeedError;
use kubexm_host::{Host, HostError, Output};
use kubexm_types::event::Events;
use kubexm_types::{ErrorKind, HostName, HostPath, Message, Untrusted};

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The connection to the host failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A command of the step ended with a non-zero status.
    #[error("{action} failed (exit status {status}):\n{complaint}{}", output_in(.log.as_deref()))]
    Command {
        /// What the command does, such as "write the receipt".
        action: String,
        /// The exit status.
        status: i32,
        /// The last lines that the command printed.
        complaint: Untrusted,
        /// The log file with the whole output.
        log: Option<PathBuf>,
    },
    /// The bundle cannot be read.
    #[error(transparent)]
    Bundle(#[from] kubexm_bundle::BundleError),
    /// No task has provided the value of this name.
    #[error("no earlier task has provided the value '{0}'")]
    Missing(&'static str),
    /// The command does not know what the host must have. The message has no secret.
    #[error("{0}")]
    Unknown(Message),
    /// The condition of a wait does not hold in time.
    #[error("{0}")]
    Unmet(Message),
    /// A command failed that waits for other parts of the cluster: see [`Ensure::waits_for`].
    #[error("{0}")]
    Awaited(Message),
    /// A condition does not hold in time because of other hosts.
    #[error("{message}")]
    OtherHosts {
        /// The hosts, with the reason for each.
        hosts: BTreeMap<HostName, String>,
        message: Message,
    },
    /// Another error.
    #[error("{0}")]
    Other(Message),
}

impl From<SeedError> for StepError {
    fn from(error: SeedError) -> Self {
        match error {
            SeedError::Host(error) => Self::Host(error),
            SeedError::Bundle(error) => Self::Bundle(error),
            other => Self::Other(Message::from(&other)),
        }
    }
}

impl From<&StepError> for Message {
    /// Returns the message without the name of the host.
    fn from(error: &StepError) -> Self {
        match error {
            StepError::Host(error) => error.message(),
            StepError::Command {
                action,
                status,
                complaint,
                log,
            } => {
                let printed = Self::printed(complaint.as_str());
                let log = output_in(log.as_deref());
                let text = format!(
                    "{action} failed (exit status {status}):\n{}{log}",
                    printed.text
                );
                Self::new(text).or_hint(printed.hint.as_deref())
            }
            StepError::Bundle(error) => Self::from(error),
            StepError::Missing(_) => Self::new(error.to_string()),
            StepError::Unknown(message)
            | StepError::Unmet(message)
            | StepError::Awaited(message)
            | StepError::OtherHosts { message, .. }
            | StepError::Other(message) => message.clone(),
        }
    }
}

impl StepError {
    /// Returns the kind of the failure: the connection to the host broke, or the step failed on a host that answers.
    pub fn kind(&self) -> ErrorKind {
        if self.is_loss_of_host() {
            ErrorKind::Host
        } else {
            ErrorKind::Step
        }
    }

    /// Returns whether a condition did not hold in time, of which other parts of the cluster may be the cause.
    pub fn is_unmet(&self) -> bool {
        matches!(self, Self::Unmet(_) | Self::OtherHosts { .. })
    }

    /// Returns whether the connection to the host broke.
    pub fn is_loss_of_host(&self) -> bool {
        matches!(self, Self::Host(HostError::Unreachable { .. }))
    }

    /// Returns the output of a command if it succeeded.
    ///
    /// # Errors
    /// The command failed while it did `action`.
    pub fn unless_done(action: &str, output: Output) -> Result<Output, Self> {
        if output.success() {
            return Ok(output);
        }
        Err(Self::Command {
            action: action.to_owned(),
            status: output.status,
            complaint: output.complaint(),
            log: output.log,
        })
    }
}

/// Returns the line that names the log file with the whole output of a command.
pub(crate) fn output_in(log: Option<&Path>) -> String {
    log.map_or_else(String::new, |log| {
        format!("\nthe whole output is in {}", log.display())
    })
}

/// What a check of an [`Ensure`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The host is in the desired state.
    Satisfied,
    /// The host must change.
    Needed {
        /// For `plan --diff` and for logs.
        reason: String,
        /// Whether the reason shows lines of a file that an administrator may have changed, as `diff -u` does.
        shows_lines: bool,
    },
    /// The host is in another state, and the step does not change it. The text states what the user must do. Every run
    /// reports it until the state is the desired one.
    Reported(Message),
}

impl Check {
    /// Returns the check of a host that must change, and no file with other lines is the reason.
    pub fn needed(reason: impl Into<String>) -> Self {
        Self::Needed {
            reason: reason.into(),
            shows_lines: false,
        }
    }

    /// Returns the check of a host that must change because of these differences, one in each line, or that has none.
    pub fn of_differences(lines: impl IntoIterator<Item = String>) -> Self {
        let lines: Vec<String> = lines.into_iter().collect();
        if lines.is_empty() {
            Self::Satisfied
        } else {
            Self::needed(lines.join("\n"))
        }
    }
}

/// What one poll of a [`Wait`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The condition holds.
    Met,
    /// The condition does not hold yet. The text states what is missing.
    Unmet(String),
    /// The condition will not hold. The text states why. The executor does not poll it again.
    Failed(String),
    /// The condition does not hold yet for some hosts.
    UnmetBy {
        /// What is missing.
        missing: String,
        /// The hosts, with the reason for each.
        hosts: BTreeMap<HostName, String>,
    },
}

/// What a condition needs, of what the doctor can find broken until people act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The kubelet of the host that polls.
    OwnKubelet,
    /// A pod of CoreDNS that is ready.
    Dns,
    /// Other programs, or those of several hosts. The condition can come true without the host that polls.
    Other,
}

/// The receipt of a host, as an [`Ensure`] sees it.
#[async_trait]
pub trait UndoLog: Send + Sync {
    /// Appends an undo record to the host's receipt. A step calls it before the change, so that an
    /// interrupted change can be reverted too. A record must be harmless when the change never
    /// happened.
    async fn record(&self, step: &str, undo: serde_json::Value) -> Result<(), StepError>;
}

/// The context of [`Ensure::apply`].
pub struct StepContext<'a> {
    pub host: &'a dyn Host,
    pub undo: &'a dyn UndoLog,
    /// Receives the progress of transfers.
    pub events: &'a Events,
}

/// The description of a step of any kind.
pub trait Describe: Send + Sync {
    /// Returns a stable name within the host, such as `file /etc/containerd/config.toml`.
    fn id(&self) -> String;

    /// Returns one line for the user, such as "Write /etc/containerd/config.toml".
    fn describe(&self) -> String;

    /// Returns the files that the step writes on the host.
    fn files(&self) -> Vec<PlannedFile> {
        Vec::new()
    }

    /// Returns the directories that programs of the cluster fill, and the step records.
    fn directories(&self) -> Vec<HostPath> {
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

    /// Returns what `apply` waits for, if that depends on other parts of the cluster.
    fn waits_for(&self) -> Option<&str> {
        None
    }
}

/// Work that runs once in every plan that contains it: it mints a token or fetches a file.
///
/// The result of an action is short-lived or belongs to the cluster, so it has no undo record.
#[async_trait]
pub trait Action: Describe {
    /// Runs the action.
    async fn run(&self, host: &dyn Host) -> Result<(), StepError>;

    /// Returns the names of the [values](super::TaskValue) that the action sets.
    fn provides(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether it changes no host and its values are not secret, so that a comparison may run it.
    fn only_reads(&self) -> bool {
        false
    }
}

/// A condition that the executor polls until it holds or the limit is reached.
#[async_trait]
pub trait Wait: Describe {
    /// Returns how long the executor polls.
    fn limit(&self) -> Duration;

    /// Tests the condition once. It must not change anything.
    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError>;

    /// Returns what the condition needs where a poll names no hosts.
    fn about(&self) -> About {
        About::Other
    }

    /// Collects what helps to find the cause when the limit is reached; nothing if the last poll says it all.
    ///
    /// # Errors
    /// The host was lost.
    async fn diagnose(&self, _: &dyn Host) -> Result<String, StepError> {
        Ok(String::new())
    }

    /// Reverts the change of an earlier step that leads to the condition, when the condition does not hold in time. Returns
    /// the error for the user; `None` if the wait does not revert anything.
    ///
    /// # Errors
    /// The change cannot be reverted.
    async fn undo(&self, _: &dyn Host) -> Result<Option<Message>, StepError> {
        Ok(None)
    }
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
/// A script that provides a value is an action. It has no `check` that could run it by mistake:
///
/// ```compile_fail
/// fn check_and_apply(_: &impl kubexm_engine::plan::Ensure) {}
/// fn mint(token: &kubexm_engine::steps::ProvideValue<String>) {
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
    fn description(&self) -> &dyn Describe {
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
        self.description().id()
    }

    /// Returns one line for the user.
    pub fn describe(&self) -> String {
        self.description().describe()
    }

    /// Returns the files that the step writes on the host.
    pub fn files(&self) -> Vec<PlannedFile> {
        self.description().files()
    }

    /// Returns the directories that programs of the cluster fill, and the step records.
    pub fn directories(&self) -> Vec<HostPath> {
        self.description().directories()
    }

    /// Returns the names of the values that the step sets.
    pub fn provides(&self) -> Vec<&'static str> {
        match self {
            Self::Action(action) => action.provides(),
            Self::Ensure(_) | Self::Wait(_) => Vec::new(),
        }
    }
}
