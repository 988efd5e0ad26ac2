//! Why a command failed, and of which kind the failure is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io;
use std::path::{Path, PathBuf};

use kubexm_bundle::BundleError;
use kubexm_bundle::lock::difference::Difference;
use kubexm_catalog::CatalogError;
use kubexm_config::Problems;
use kubexm_deploy::DeployError;
use kubexm_engine::plan::{StepError, TaskId};
use kubexm_engine::reset::ResetError;
use kubexm_fetch::FetchError;
use kubexm_fetch::resolve::ChangedEntry;
use kubexm_host::HostError;
use kubexm_preflight::Finding;
use kubexm_sbom::SbomError;
use kubexm_sbom::vulnerability::Severity;
use kubexm_types::{HostName, Message, disk_failure};

use crate::rollback::OlderBundle;
use crate::stop::AGAIN;
use kubexm_engine::plan::diff::Lost;

/// The failure of a command. Its text is complete: what failed, where, the cause, and hints.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Wrong options, or a wrong combination of options and files.
    #[error("{0}")]
    Configuration(String),
    /// A file or folder on this machine that a user named cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that a user wrote contains errors.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// The catalog does not know a component or a version.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The cluster cannot be planned from the bundle.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// Other content of a bundle needs what `bundle remove` would remove.
    #[error(
        "other content of the bundle needs what you remove; nothing was written{}\nhint: --force removes it \
         anyway",
        indented(.0)
    )]
    StillNeeded(Vec<String>),
    /// Preflight found errors on hosts.
    #[error("the hosts are not ready; nothing was touched\n{}", lines(.0))]
    NotReady(Vec<Finding>),
    /// A bundle cannot be written or read, for a cause that is not the user's.
    #[error("{0}")]
    Bundle(String),
    /// Clusters could not be installed from the bundle alone.
    #[error(
        "the bundle would not be complete; nothing was written{}{}",
        indented(.missing),
        hint_line(.default_clusters.then_some(CHECK_YOUR_CLUSTER))
    )]
    Incomplete {
        /// What the bundle does not have, and what the bundled kubeadm refuses.
        missing: Vec<String>,
        /// Whether kubexm checked its default clusters, and not a cluster of the user.
        default_clusters: bool,
    },
    /// The bundle would differ from its lock, which `--locked` forbids.
    #[error(
        "the bundle would differ from {}; nothing was written{}\nhint: build without --locked to accept the \
         differences",
        .lock.display(),
        drift(.differences)
    )]
    Drift {
        /// The lock.
        lock: PathBuf,
        /// The differences; empty if only addresses, checksums or facts about kubeadm differ.
        differences: Vec<Difference>,
    },
    /// Entries of an existing lock differ from what their publishers state now.
    #[error(
        "the lock differs from what publishers state; nothing was written{}\nhint: compare the lock with its \
         history; remove an entry to accept the publisher's digest, or keep the lock with --keep-locked",
        indented(.0)
    )]
    LockDiffers(Vec<ChangedEntry>),
    /// A command needs a complete bundle and got an incremental one.
    #[error(
        "{}: this is an incremental bundle: it does not contain the blobs of its base '{base}'\nhint: \
         `kubexm bundle merge BASE {} -o COMPLETE` writes a complete bundle",
        .bundle.display(),
        .bundle.display()
    )]
    Incremental {
        /// The bundle.
        bundle: PathBuf,
        /// The name of its base.
        base: String,
    },
    /// The cache contained damaged blobs, which were removed.
    #[error(
        "{} of {blobs} blobs were damaged and were removed; the next build downloads them again{}",
        .removed.len(),
        indented(&.removed.iter().map(|path| path.display()).collect::<Vec<_>>())
    )]
    DamagedCache {
        /// The number of blobs that were read.
        blobs: usize,
        /// The damaged blobs.
        removed: Vec<PathBuf>,
    },
    /// A bundle has vulnerabilities that the user does not accept.
    #[error("{}: {count} known vulnerabilities{}", .bundle.display(), at_least(*.severity))]
    Vulnerable {
        /// The bundle.
        bundle: PathBuf,
        /// The number of vulnerabilities.
        count: usize,
        /// The least severity that was counted.
        severity: Severity,
    },
    /// The bundle format reports an error.
    #[error(transparent)]
    Format(BundleError),
    /// A bundle is older than the newest one that the cluster was installed from.
    #[error(transparent)]
    Older(#[from] OlderBundle),
    /// A download failed.
    #[error(transparent)]
    Fetch(FetchError),
    /// The content of a bundle cannot be listed.
    #[error(transparent)]
    Sbom(#[from] SbomError),
    /// Hosts cannot be reached, or refuse the login.
    #[error("{}", lines(.0))]
    Hosts(Vec<HostError>),
    /// A change of the cluster needs hosts that cannot be reached, or that refuse the login.
    #[error("{}\nhint: {hint}", lines(.hosts))]
    HostsNeeded {
        /// Why, for each of these hosts.
        hosts: Vec<HostError>,
        /// What the user can do.
        hint: String,
    },
    /// No host of these, all of which have a registry, can be reached.
    #[error(
        "no host with a registry can be reached: {}\nhint: start one of these hosts and its SSH server, or correct its \
         address and its login in the cluster file",
        names(.0)
    )]
    NoRegistry(Vec<HostName>),
    /// A run of a timer does not change a cluster that is not healthy.
    #[error("{what}: the control plane is not healthy:{}\nhint: {hint}", indented(.problems))]
    Unhealthy {
        /// What was not done, or what was done before.
        what: &'static str,
        problems: Vec<String>,
        /// What the user can do.
        hint: &'static str,
    },
    /// The command of a user failed on hosts.
    #[error("{0}")]
    Exec(String),
    /// Hosts were lost before a plan was compared with all of their state.
    #[error("{}", lines(.0))]
    NotCompared(Vec<Lost>),
    /// Steps failed on hosts.
    #[error("{}\nhint: {AGAIN}", .0)]
    Steps(StepFailures),
    /// A cluster was installed without workers that cannot be used.
    #[error(
        "the cluster was installed without these workers:{0}\nhint: repair them, then run the same install again: \
         it adds them to the cluster"
    )]
    FailedWorkers(WorkersLeftOut),
    /// Tests of Kubernetes did not run to their end.
    #[error("{0}")]
    Tests(String),
    /// Changes on hosts cannot be reverted.
    #[error("{}\nhint: {AGAIN}", lines(.0))]
    Reset(Vec<ResetError>),
    /// The other hosts were reset; these cannot be reached.
    #[error(
        "these hosts were not reset, the others were:\n{}\nhint: run the same command again when they answer; the \
         state directory keeps the keys of the cluster until then",
        lines(.0)
    )]
    NotReset(Vec<HostError>),
    /// The user stopped the command.
    #[error("{0}")]
    Interrupted(String),
}

impl From<&CommandError> for Message {
    fn from(error: &CommandError) -> Self {
        match error {
            CommandError::File(error) => Self {
                hint: error.hint.clone(),
                ..Self::new(format!(
                    "cannot {} {}: {}",
                    error.action,
                    error.path.display(),
                    error.cause
                ))
            },
            CommandError::Deploy(error) => Self::from(error),
            CommandError::Format(error) => Self::from(error),
            CommandError::HostsNeeded { hosts, hint } => Self::new(lines(hosts)).hint(hint),
            other => Self::new(other.to_string()),
        }
    }
}

/// The kinds of failure that an exit code distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Wrong usage or configuration.
    Configuration,
    /// A bundle cannot be built, downloaded or read.
    Bundle,
    /// A host cannot be reached or was lost.
    Host,
    /// A step failed on a host.
    Step,
    /// The user stopped the command.
    Interrupted,
}

impl CommandError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Configuration(_)
            | Self::Problems(_)
            | Self::Catalog(_)
            | Self::StillNeeded(_)
            | Self::NotReady(_)
            | Self::Fetch(FetchError::Resolve(_)) => ErrorKind::Configuration,
            Self::File(error) => error.kind,
            Self::Deploy(DeployError::Incomplete(_)) => ErrorKind::Bundle,
            Self::Deploy(_) => ErrorKind::Configuration,
            Self::Bundle(_)
            | Self::Incomplete { .. }
            | Self::Drift { .. }
            | Self::LockDiffers(_)
            | Self::Incremental { .. }
            | Self::DamagedCache { .. }
            | Self::Vulnerable { .. }
            | Self::Format(_)
            | Self::Older(_)
            | Self::Fetch(_)
            | Self::Sbom(_) => ErrorKind::Bundle,
            Self::Hosts(_)
            | Self::HostsNeeded { .. }
            | Self::NoRegistry(_)
            | Self::NotCompared(_)
            | Self::NotReset(_)
            | Self::FailedWorkers(_) => ErrorKind::Host,
            Self::Tests(_) | Self::Exec(_) | Self::Unhealthy { .. } => ErrorKind::Step,
            Self::Steps(failures) => {
                if failures.has_lost_host() {
                    ErrorKind::Host
                } else {
                    ErrorKind::Step
                }
            }
            Self::Reset(errors) => {
                if errors.iter().any(ResetError::is_loss_of_host) {
                    ErrorKind::Host
                } else {
                    ErrorKind::Step
                }
            }
            Self::Interrupted(_) => ErrorKind::Interrupted,
        }
    }

    /// Wraps a cause as [`CommandError::Configuration`].
    pub fn configuration(message: impl fmt::Display) -> Self {
        Self::Configuration(message.to_string())
    }

    /// Wraps a cause as [`CommandError::Bundle`].
    pub fn bundle(message: impl fmt::Display) -> Self {
        Self::Bundle(message.to_string())
    }
}

/// A file or folder on this machine that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {cause}{}", .path.display(), hint_line(.hint.as_deref()))]
pub struct FileError {
    /// A verb and what the file is, as in "read the lock".
    action: Cow<'static, str>,
    path: PathBuf,
    cause: String,
    hint: Option<String>,
    kind: ErrorKind,
}

impl FileError {
    /// Returns the error of an action on a file that a user named.
    pub fn new(
        action: impl Into<Cow<'static, str>>,
        path: &Path,
        cause: impl fmt::Display,
    ) -> Self {
        Self {
            action: action.into(),
            path: path.to_owned(),
            cause: cause.to_string(),
            hint: None,
            kind: ErrorKind::Configuration,
        }
    }

    /// Returns the error of an action on a file that the file system refused, with a hint if the cause shows one.
    pub fn io(action: impl Into<Cow<'static, str>>, path: &Path, cause: &io::Error) -> Self {
        Self {
            hint: disk_failure::hint(cause).map(str::to_owned),
            ..Self::new(action, path, cause)
        }
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Makes the failure one of writing a bundle, or a file that belongs to it.
    #[must_use]
    pub fn of_bundle(mut self) -> Self {
        self.kind = ErrorKind::Bundle;
        self
    }
}

/// The workers that an install left out, with the causes.
#[derive(Debug)]
pub struct WorkersLeftOut(pub BTreeMap<HostName, String>);

impl fmt::Display for WorkersLeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, cause) in &self.0 {
            write!(f, "\n  {name}: {}", cause.replace('\n', "\n    "))?;
        }
        Ok(())
    }
}

/// The steps that failed in a run, the hosts that were lost, and what was left undone.
#[derive(Debug)]
pub struct StepFailures {
    /// Task, step and cause of each failure.
    pub failed: Vec<(TaskId, String, StepError)>,
    /// Hosts that no longer answer. A step on another host may have failed because it waited for one.
    pub unreachable: Vec<HostError>,
    /// What was left undone.
    pub left: LeftOver,
}

impl StepFailures {
    fn has_lost_host(&self) -> bool {
        let mut failed = self.failed.iter();
        !self.unreachable.is_empty() || failed.any(|(_, _, error)| error.is_loss_of_host())
    }
}

impl fmt::Display for StepFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failed.iter();
        let failed: Vec<String> = failed
            .map(|(task, step, error)| format!("{task}: {step}: {error}"))
            .collect();
        let reported = failed.join("\n");
        f.write_str(&reported)?;
        for error in &self.unreachable {
            let error = error.to_string();
            // The step that failed on a lost host already names the cause.
            if !reported.contains(&error) {
                write!(f, "\n{error}")?;
            }
        }
        self.left.fmt(f)
    }
}

/// The number of tasks that did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOver {
    /// Tasks whose commands may still run on the hosts.
    pub running: usize,
    /// Tasks that did not start.
    pub waiting: usize,
}

impl fmt::Display for LeftOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.running > 0 {
            write!(
                f,
                "\n{} tasks did not end in time: their commands may still run on the hosts, and the next run \
                 waits for them",
                self.running
            )?;
        }
        if self.waiting > 0 {
            write!(f, "\n{} tasks were not started", self.waiting)?;
        }
        Ok(())
    }
}

impl From<BundleError> for CommandError {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Stopped => Self::Interrupted(format!(
                "{error}\nhint: {AGAIN}: what was downloaded is kept"
            )),
            other => Self::Format(other),
        }
    }
}

impl From<FetchError> for CommandError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Bundle(error) => error.into(),
            other => Self::Fetch(other),
        }
    }
}

impl From<HostError> for CommandError {
    fn from(error: HostError) -> Self {
        Self::Hosts(vec![error])
    }
}

const CHECK_YOUR_CLUSTER: &str =
    "`--cluster FILE` checks your cluster instead of kubexm's default clusters";

fn names(hosts: &[HostName]) -> String {
    let names: Vec<&str> = hosts.iter().map(HostName::as_str).collect();
    names.join(", ")
}

fn lines(items: &[impl fmt::Display]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join("\n")
}

/// Returns each item on its own line, indented by two spaces.
fn indented(items: &[impl fmt::Display]) -> String {
    items.iter().fold(String::new(), |mut text, item| {
        let _ = write!(text, "\n  {item}");
        text
    })
}

fn hint_line(hint: Option<&str>) -> String {
    hint.map_or_else(String::new, |hint| format!("\nhint: {hint}"))
}

fn drift(differences: &[Difference]) -> String {
    match differences {
        [] => {
            "\n  the same content with other addresses, checksums or facts about kubeadm".to_owned()
        }
        differences => indented(differences),
    }
}

fn at_least(severity: Severity) -> String {
    match severity {
        Severity::Unknown => String::new(),
        severity => format!(" of severity {} or above", severity.name()),
    }
}
