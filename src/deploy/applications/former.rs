//! Applications of an earlier install that the cluster file does not have any more. An install reports them.

use async_trait::async_trait;
use kubexm_config::cluster::Application;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_types::Message;

use super::installed::{former, releases};
use crate::objects::{Server, checked};

/// Compares the releases that kubexm created with the applications of the cluster file.
pub(super) struct Former {
    applications: Vec<Application>,
}

impl Former {
    pub(super) fn new(applications: &[Application]) -> Self {
        Self {
            applications: applications.to_vec(),
        }
    }

    async fn found(&self, host: &dyn Host) -> Result<Check, StepError> {
        let installed = releases(Server::of(host)).await?;
        let found: Vec<_> = former(&installed, &self.applications).collect();
        if found.is_empty() {
            return Ok(Check::Satisfied);
        }
        let names = found
            .iter()
            .map(|one| format!("{}/{}", one.namespace, one.name));
        let commands = found.iter().map(|one| {
            format!(
                "`kubexm app remove {} --namespace {}`",
                one.name, one.namespace
            )
        });
        let text = format!(
            "applications of an earlier install stay in the cluster: {}",
            names.collect::<Vec<_>>().join(", ")
        );
        let hint = format!(
            "add them to spec.applications again, or remove them with {}",
            commands.collect::<Vec<_>>().join(", ")
        );
        Ok(Check::Reported(Message::quoting(text).hint(hint)))
    }
}

impl Describe for Former {
    fn id(&self) -> String {
        "former applications".to_owned()
    }

    fn describe(&self) -> String {
        "Compare the applications of earlier installs".to_owned()
    }
}

impl From<Former> for Step {
    fn from(step: Former) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for Former {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        checked(self.found(host).await)
    }

    /// Does nothing: the check never asks for a change.
    async fn apply(&self, _: &StepContext<'_>) -> Result<(), StepError> {
        Ok(())
    }
}
