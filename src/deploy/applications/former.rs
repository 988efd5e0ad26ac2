//! Applications of an earlier install that the cluster file does not have any more. An install reports them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use kubexm_config::cluster::Application;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_types::Message;

use super::release::{CONTENT, REVISIONS, Revision};
use crate::objects::{Server, checked};

/// Compares the releases that kubexm created with the applications of the cluster file.
pub(super) struct Former {
    /// Namespace and name of each release.
    known: BTreeSet<(String, String)>,
}

impl Former {
    pub(super) fn new(applications: &[Application]) -> Self {
        let applications = applications.iter();
        let known = applications.map(|one| (one.namespace.to_string(), one.name.to_string()));
        Self {
            known: known.collect(),
        }
    }

    async fn found(&self, host: &dyn Host) -> Result<Check, StepError> {
        let selector = format!("owner=helm,{CONTENT}");
        let words = ["secrets", "-A", "-l", &selector, "-o", REVISIONS];
        let revisions = Server::of(host)
            .list::<Revision>("read the releases", &words)
            .await?;
        let found = revisions
            .into_iter()
            .map(|one| (one.namespace, one.release));
        let found: BTreeSet<_> = found.filter(|one| !self.known.contains(one)).collect();
        if found.is_empty() {
            return Ok(Check::Satisfied);
        }
        let names = found
            .iter()
            .map(|(namespace, name)| format!("{namespace}/{name}"));
        let commands = found
            .iter()
            .map(|(namespace, name)| format!("`kubexm app remove {name} --namespace {namespace}`"));
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
