//! Why a command failed, and of which kind the failure is.

mod causes;
mod failures;
mod file;
pub(crate) mod older_bundle;

use std::fmt::{self, Write};
use std::path::PathBuf;

use kubexm_bundle::BundleError;
use kubexm_bundle::lock::difference::Difference;
use kubexm_catalog::CatalogError;
use kubexm_config::Problems;
use kubexm_deploy::DeployError;
use kubexm_engine::plan::diff::Lost;
use kubexm_engine::reset::ResetError;
use kubexm_fetch::FetchError;
use kubexm_fetch::resolve::ChangedEntry;
use kubexm_host::HostError;
use kubexm_preflight::Finding;
use kubexm_sbom::SbomError;
use kubexm_sbom::vulnerability::Severity;
use kubexm_types::{ErrorKind, HostName, Message};

use self::older_bundle::OlderBundle;
use crate::stop::AGAIN;

pub use failures::{Explained, LeftOver, StepFailures, WorkersLeftOut};
pub use file::FileError;

/// The failure of a command. Its text is complete: what failed, where, the cause, and hints.
#[derive(Debug, thiserror::Error)]
#[error("{}", Message::from(self))]
pub enum CommandError {
    /// A failure of which code needs to know no more than the kind.
    Failed {
        /// The kind.
        kind: ErrorKind,
        /// What failed, and what the user can do.
        message: Message,
    },
    /// A file or folder on this machine that a user named cannot be used.
    File(#[from] FileError),
    /// A file that a user wrote contains errors.
    Problems(#[from] Problems),
    /// The catalog does not know a component or a version.
    Catalog(#[from] CatalogError),
    /// The cluster cannot be planned from the bundle.
    Deploy(DeployError),
    /// Other content of a bundle needs what `bundle remove` would remove.
    StillNeeded(Vec<String>),
    /// Preflight found errors on hosts.
    NotReady(Vec<Finding>),
    /// Clusters could not be installed from the bundle alone.
    Incomplete {
        /// What the bundle does not have, and what the bundled kubeadm refuses.
        missing: Vec<String>,
        /// Whether kubexm checked its default clusters, and not a cluster of the user.
        default_clusters: bool,
    },
    /// The bundle would differ from its lock, which `--locked` forbids.
    Drift {
        /// The lock.
        lock: PathBuf,
        /// The differences; empty if only addresses, checksums or facts about kubeadm differ.
        differences: Vec<Difference>,
    },
    /// Entries of an existing lock differ from what their publishers state now.
    LockDiffers(Vec<ChangedEntry>),
    /// A command needs a complete bundle and got an incremental one.
    Incremental {
        /// The bundle.
        bundle: PathBuf,
        /// The name of its base.
        base: String,
    },
    /// The cache contained damaged blobs, which were removed.
    DamagedCache {
        /// The number of blobs that were read.
        blobs: usize,
        /// The damaged blobs.
        removed: Vec<PathBuf>,
    },
    /// A bundle has vulnerabilities that the user does not accept.
    Vulnerable {
        /// The bundle.
        bundle: PathBuf,
        /// The number of vulnerabilities.
        count: usize,
        /// The least severity that was counted.
        severity: Severity,
    },
    /// The bundle format reports an error.
    Format(BundleError),
    /// A bundle is older than the newest one that the cluster was installed from.
    Older(#[from] OlderBundle),
    /// A download failed.
    Fetch(FetchError),
    /// The content of a bundle cannot be listed.
    Sbom(#[from] SbomError),
    /// Hosts cannot be reached, or refuse the login.
    Hosts(Vec<HostError>),
    /// A change of the cluster needs hosts that cannot be reached, or that refuse the login.
    HostsNeeded {
        /// Why, for each of these hosts.
        hosts: Vec<HostError>,
        /// What the user can do.
        hint: String,
    },
    /// No host of these, all of which have a registry, can be reached.
    NoRegistry(Vec<HostName>),
    /// A run of a timer does not change a cluster that is not healthy.
    Unhealthy {
        /// What was not done, or what was done before.
        what: &'static str,
        problems: Vec<String>,
        /// What the user can do.
        hint: &'static str,
    },
    /// Hosts were lost before a plan was compared with all of their state.
    NotCompared(Vec<Lost>),
    /// Steps failed on hosts.
    Steps(StepFailures),
    /// Conditions did not hold in time, and kubexm has found why.
    Explained(Box<Explained>),
    /// A cluster was installed without workers that cannot be used.
    FailedWorkers(WorkersLeftOut),
    /// Changes on hosts cannot be reverted.
    Reset(Vec<ResetError>),
    /// The other hosts were reset; these cannot be reached.
    NotReset(Vec<HostError>),
}

impl From<&CommandError> for Message {
    fn from(error: &CommandError) -> Self {
        match error {
            CommandError::Failed { message, .. } => message.clone(),
            CommandError::File(error) => Self::from(error),
            CommandError::Problems(problems) => Self::of_all(problems.messages()),
            CommandError::Catalog(error) => Self::new(error.to_string()),
            CommandError::Deploy(error) => Self::from(error),
            CommandError::StillNeeded(what) => Self::new(format!(
                "other content of the bundle needs what you remove; nothing was written{}",
                indented(what)
            ))
            .hint("--force removes it anyway"),
            CommandError::NotReady(findings) => Self::list(
                "the hosts are not ready; nothing was touched",
                messages(findings),
            ),
            CommandError::Incomplete {
                missing,
                default_clusters,
            } => Self::new(format!(
                "the bundle would not be complete; nothing was written{}",
                indented(missing)
            ))
            .or_hint(default_clusters.then_some(CHECK_YOUR_CLUSTER)),
            CommandError::Drift { lock, differences } => Self::new(format!(
                "the bundle would differ from {}; nothing was written{}",
                lock.display(),
                drift(differences)
            ))
            .hint("build without --locked to accept the differences"),
            CommandError::LockDiffers(entries) => Self::new(format!(
                "the lock differs from what publishers state; nothing was written{}",
                indented(entries)
            ))
            .hint(
                "compare the lock with its history; remove an entry to accept the publisher's \
                 digest, or keep the lock with --keep-locked",
            ),
            CommandError::Incremental { bundle, base } => {
                let bundle = bundle.display();
                Self::new(format!(
                    "{bundle}: this is an incremental bundle: it does not contain the blobs of \
                     its base '{base}'"
                ))
                .hint(format!(
                    "`kubexm bundle merge BASE {bundle} -o COMPLETE` writes a complete bundle"
                ))
            }
            CommandError::DamagedCache { blobs, removed } => {
                let paths: Vec<_> = removed.iter().map(|path| path.display()).collect();
                Self::new(format!(
                    "{} of {blobs} blobs were damaged and were removed; the next build downloads \
                     them again{}",
                    removed.len(),
                    indented(&paths)
                ))
            }
            CommandError::Vulnerable {
                bundle,
                count,
                severity,
            } => Self::new(format!(
                "{}: {count} known vulnerabilities{}",
                bundle.display(),
                at_least(*severity)
            )),
            CommandError::Format(error) => Self::from(error),
            CommandError::Older(error) => Self::from(error),
            CommandError::Fetch(error) => Self::from(error),
            CommandError::Sbom(error) => Self::from(error),
            CommandError::Hosts(errors) => Self::of_all(messages(errors)),
            CommandError::HostsNeeded { hosts, hint } => Self::list("", messages(hosts)).hint(hint),
            CommandError::NoRegistry(hosts) => Self::new(format!(
                "no host with a registry can be reached: {}",
                names(hosts)
            ))
            .hint(
                "start one of these hosts and its SSH server, or correct its address and its \
                 login in the cluster file",
            ),
            CommandError::Unhealthy {
                what,
                problems,
                hint,
            } => Self::new(format!(
                "{what}: the control plane is not healthy:{}",
                indented(problems)
            ))
            .hint(*hint),
            CommandError::NotCompared(lost) => Self::of_all(messages(lost)),
            CommandError::Steps(failures) => Self::from(failures).hint(AGAIN),
            CommandError::Explained(explained) => Self::from(explained.as_ref()),
            CommandError::FailedWorkers(workers) => Self::new(format!(
                "the cluster was installed without these workers:{workers}"
            ))
            .hint("repair them, then run the same install again: it adds them to the cluster"),
            CommandError::Reset(errors) => Self::list("", messages(errors)).hint(AGAIN),
            CommandError::NotReset(hosts) => Self::list(
                "these hosts were not reset, the others were:",
                messages(hosts),
            )
            .hint(
                "run the same command again when they answer; the state directory keeps the keys \
                 of the cluster until then",
            ),
        }
    }
}

impl CommandError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Failed { kind, .. } => *kind,
            Self::File(error) => error.kind(),
            Self::Problems(_)
            | Self::Catalog(_)
            | Self::StillNeeded(_)
            | Self::Fetch(FetchError::Resolve(_)) => ErrorKind::Configuration,
            Self::NotReady(_) => ErrorKind::Refused,
            Self::Deploy(DeployError::Incomplete(_)) => ErrorKind::Bundle,
            Self::Deploy(_) => ErrorKind::Configuration,
            Self::Incomplete { .. }
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
            Self::Unhealthy { .. } | Self::Explained(_) => ErrorKind::Step,
            Self::Steps(failures) => host_or_step(failures.has_lost_host()),
            Self::Reset(errors) => host_or_step(errors.iter().any(ResetError::is_loss_of_host)),
        }
    }

    /// Returns the error of a machine of kubexm that does not permit what a command needs.
    pub fn machine(message: impl Into<Message>) -> Self {
        Self::failed(ErrorKind::Machine, message)
    }

    /// Returns the error of wrong options, or of a wrong combination of options and files.
    pub fn configuration(message: impl Into<Message>) -> Self {
        Self::failed(ErrorKind::Configuration, message)
    }

    /// Returns the error of a command that the state of the cluster, or what has begun, does not permit.
    pub fn refused(message: impl Into<Message>) -> Self {
        Self::failed(ErrorKind::Refused, message)
    }

    /// Returns the error of building, downloading or reading a bundle.
    pub fn bundle(message: impl Into<Message>) -> Self {
        Self::failed(ErrorKind::Bundle, message)
    }

    /// Returns the error of unreachable hosts that a command needs.
    pub fn host(message: impl Into<Message>) -> Self {
        Self::failed(ErrorKind::Host, message)
    }

    /// Returns the error of a step, a program or a file that failed on a host which answers.
    pub fn step(message: impl Into<Message>) -> Self {
        Self::failed(ErrorKind::Step, message)
    }

    /// Returns the error of a command that the user stopped.
    pub fn interrupted(message: impl Into<Message>) -> Self {
        Self::failed(ErrorKind::Interrupted, message)
    }

    /// Returns the error of a state that cannot occur.
    pub fn defect(cause: impl fmt::Display) -> Self {
        let message = Message::new(format!("a defect of kubexm: {cause}")).hint(REPORT);
        Self::failed(ErrorKind::Defect, message)
    }

    fn failed(kind: ErrorKind, message: impl Into<Message>) -> Self {
        let message = message.into();
        Self::Failed { kind, message }
    }

    /// Sets what the user can do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self::failed(self.kind(), Message::from(&self).hint(hint))
    }
}

fn host_or_step(is_host: bool) -> ErrorKind {
    if is_host {
        ErrorKind::Host
    } else {
        ErrorKind::Step
    }
}

/// What the user can do about a defect.
const REPORT: &str =
    "report it, with what `kubexm version` prints and the archive of `kubexm support-bundle`";

const CHECK_YOUR_CLUSTER: &str =
    "`--cluster FILE` checks your cluster instead of kubexm's default clusters";

fn names(hosts: &[HostName]) -> String {
    let names: Vec<&str> = hosts.iter().map(HostName::as_str).collect();
    names.join(", ")
}

fn messages<T>(items: &[T]) -> Vec<Message>
where
    for<'a> Message: From<&'a T>,
{
    items.iter().map(Message::from).collect()
}

/// Returns each item on its own line, indented by two spaces.
fn indented(items: &[impl fmt::Display]) -> String {
    items.iter().fold(String::new(), |mut text, item| {
        let _ = write!(text, "\n  {item}");
        text
    })
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
