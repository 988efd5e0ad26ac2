//! Why a command failed, and of which kind the failure is.

use std::fmt;
use std::path::Path;

use kubexm_bundle::BundleError;
use kubexm_catalog::CatalogError;
use kubexm_config::Problems;
use kubexm_deploy::DeployError;
use kubexm_fetch::FetchError;
use kubexm_host::HostError;
use kubexm_preflight::Finding;
use kubexm_sbom::SbomError;

/// The failure of a command. Its text is complete: what failed, where, the cause, and hints.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Wrong options, or a wrong combination of options and files.
    #[error("{0}")]
    Configuration(String),
    /// A file that a user wrote contains errors.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// The catalog does not know a component or a version.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The cluster cannot be planned from the bundle.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// Preflight found errors on hosts.
    #[error("the hosts are not ready; nothing was touched\n{}", list(.0))]
    NotReady(Vec<Finding>),
    /// A bundle cannot be built, written or read.
    #[error("{0}")]
    Bundle(String),
    /// The bundle format reports an error.
    #[error(transparent)]
    Format(BundleError),
    /// A download failed.
    #[error(transparent)]
    Fetch(FetchError),
    /// The content of a bundle cannot be listed.
    #[error(transparent)]
    Sbom(#[from] SbomError),
    /// A host cannot be reached, refuses the login, or was lost during the work.
    #[error("{0}")]
    Host(String),
    /// A step failed on a host.
    #[error("{0}")]
    Step(String),
    /// The user stopped the command.
    #[error("{0}")]
    Interrupted(String),
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
            | Self::NotReady(_)
            | Self::Fetch(FetchError::Resolve(_)) => ErrorKind::Configuration,
            Self::Deploy(DeployError::Incomplete(_)) => ErrorKind::Bundle,
            Self::Deploy(_) => ErrorKind::Configuration,
            Self::Bundle(_) | Self::Format(_) | Self::Fetch(_) | Self::Sbom(_) => ErrorKind::Bundle,
            Self::Host(_) => ErrorKind::Host,
            Self::Step(_) => ErrorKind::Step,
            Self::Interrupted(_) => ErrorKind::Interrupted,
        }
    }

    /// Wraps a cause as [`CommandError::Configuration`].
    pub(crate) fn configuration(message: impl fmt::Display) -> Self {
        Self::Configuration(message.to_string())
    }

    /// Returns the error of a file or folder on this machine that a user named.
    pub(crate) fn file(path: &Path, cause: impl fmt::Display) -> Self {
        Self::Configuration(format!("{}: {cause}", path.display()))
    }

    /// Wraps a cause as [`CommandError::Bundle`].
    pub(crate) fn bundle(message: impl fmt::Display) -> Self {
        Self::Bundle(message.to_string())
    }
}

impl From<BundleError> for CommandError {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Stopped => Self::Interrupted(format!(
                "{error}; run the same command again to go on: what was downloaded is kept"
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
        Self::Host(error.to_string())
    }
}

fn list(findings: &[Finding]) -> String {
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    findings.join("\n")
}
