//! Exit codes by kind of failure.

use std::fmt;

use kubexm_bundle::BundleError;
use kubexm_catalog::CatalogError;
use kubexm_commands::{CommandError, ErrorKind};
use kubexm_config::Problems;
use kubexm_deploy::DeployError;
use kubexm_fetch::FetchError;
use kubexm_sbom::SbomError;

/// Every exit code and its meaning.
pub const CODES: [(u8, &str); 6] = [
    (0, "all well"),
    (1, "interrupted or unexpected"),
    (2, "usage or configuration"),
    (3, "bundle (building, downloading or reading it)"),
    (
        4,
        "a host cannot be reached, refuses the login or was lost on the way",
    ),
    (5, "a step failed on a host"),
];

/// Returns the text about exit codes at the end of `--help`.
pub fn help() -> String {
    let codes = CODES.map(|(code, meaning)| format!("{code} {meaning}"));
    format!("Exit codes: {}", codes.join(", "))
}

/// Why a command failed, in one message, and with which exit code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// Wrong usage or configuration.
    pub fn configuration(message: impl fmt::Display) -> Self {
        Self {
            code: 2,
            message: message.to_string(),
        }
    }

    /// A bundle that cannot be built or read.
    pub fn bundle(message: impl fmt::Display) -> Self {
        Self {
            code: 3,
            message: message.to_string(),
        }
    }

    /// Stopped by the user.
    pub fn interrupted(message: impl fmt::Display) -> Self {
        Self {
            code: 1,
            message: message.to_string(),
        }
    }

    /// The process's exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        let code = match error.kind() {
            ErrorKind::Interrupted => 1,
            ErrorKind::Configuration => 2,
            ErrorKind::Bundle => 3,
            ErrorKind::Host => 4,
            ErrorKind::Step => 5,
        };
        Self {
            code,
            message: error.to_string(),
        }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::configuration(problems)
    }
}
impl From<CatalogError> for Failure {
    fn from(error: CatalogError) -> Self {
        Self::configuration(error)
    }
}
impl From<BundleError> for Failure {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Stopped => Self::interrupted(format!(
                "{error}; run the same command again to go on: what was downloaded is kept"
            )),
            other => Self::bundle(other),
        }
    }
}
impl From<SbomError> for Failure {
    fn from(error: SbomError) -> Self {
        Self::bundle(error)
    }
}
impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Bundle(error) => error.into(),
            FetchError::Resolve(message) => Self::configuration(message),
            other => Self::bundle(other),
        }
    }
}
impl From<DeployError> for Failure {
    fn from(error: DeployError) -> Self {
        CommandError::from(error).into()
    }
}
