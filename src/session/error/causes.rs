//! Errors of other crates as failures of a command.

use kubexm_bundle::BundleError;
use kubexm_deploy::DeployError;
use kubexm_engine::plan::{InvalidPlan, StepError};
use kubexm_fetch::FetchError;
use kubexm_host::HostError;
use kubexm_pki::PkiError;
use kubexm_types::{Message, SecretError};

use super::CommandError;
use crate::stop::AGAIN;

impl From<BundleError> for CommandError {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Stopped => Self::interrupted(Message::from(&error))
                .hint(format!("{AGAIN}: what was downloaded is kept")),
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

impl From<DeployError> for CommandError {
    fn from(error: DeployError) -> Self {
        match error {
            DeployError::Render(_) | DeployError::Value(_) => Self::defect(error),
            other => Self::Deploy(other),
        }
    }
}

impl From<InvalidPlan> for CommandError {
    fn from(error: InvalidPlan) -> Self {
        Self::defect(error)
    }
}

impl From<PkiError> for CommandError {
    fn from(error: PkiError) -> Self {
        Self::configuration(Message::from(&error))
    }
}

impl From<SecretError> for CommandError {
    fn from(error: SecretError) -> Self {
        Self::configuration(Message::from(&error))
    }
}

impl From<StepError> for CommandError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Host(error) => error.into(),
            StepError::Bundle(error) => error.into(),
            other => Self::step(Message::from(&other)),
        }
    }
}
