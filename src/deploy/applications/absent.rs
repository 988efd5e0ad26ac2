//! Applications of which the bundle does not have everything, and which the cluster has already: they stay as they are.

use async_trait::async_trait;
use kubexm_bundle::Lock;
use kubexm_config::Cluster;
use kubexm_config::cluster::{Application, ApplicationContent};
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_types::Message;

use super::installed::{InstalledRelease, releases};
use super::parts::{Missing, content};
use crate::objects::{Server, checked};

const HINT: &str = "build a bundle with it, or remove the application from spec.applications";

/// Returns what the bundle does not have of an application; `None` if it has everything, or several versions of a chart.
pub(super) fn absent(
    applications: &[Application],
    lock: &Lock,
    application: &Application,
) -> Option<Vec<String>> {
    match content(lock, application) {
        Err(Missing::Parts(parts)) => Some(parts),
        Err(Missing::Choice(_)) => None,
        // Objects of an add-on have no part of their own: they stay with it.
        Ok(_) => {
            let is_of = |one: &&Application| application.needs.contains(&one.name);
            let of_addon = matches!(application.content, ApplicationContent::AddonObjects(_));
            let mut needed = applications.iter().filter(|one| of_addon && is_of(one));
            needed.find_map(|one| absent(applications, lock, one))
        }
    }
}

/// Returns whether a cluster with these releases has an application.
fn is_installed(installed: &[InstalledRelease], application: &Application) -> bool {
    let mut releases = installed.iter();
    releases.any(|one| one.is_of(application) && one.is_of_kubexm && one.is_installed())
}

/// Returns the parts of applications that neither the bundle nor the cluster has. Asks the API server only if the bundle does not
/// have something.
///
/// # Errors
/// The API server does not answer.
pub async fn missing_applications(
    cluster: &Cluster,
    lock: &Lock,
    server: Server<'_>,
) -> Result<Vec<String>, StepError> {
    let all = &cluster.applications;
    let absent = all
        .iter()
        .filter_map(|one| Some((one, absent(all, lock, one)?)));
    let absent: Vec<(&Application, Vec<String>)> = absent.collect();
    if absent.is_empty() {
        return Ok(Vec::new());
    }
    let installed = releases(server).await?;
    let mut missing = Vec::new();
    for (application, parts) in absent {
        let is_new = |part: &String| !missing.contains(part);
        if !is_installed(&installed, application) {
            missing.extend(parts.into_iter().filter(is_new).collect::<Vec<_>>());
        }
    }
    Ok(missing)
}

/// Fails if the cluster does not have an application, of which the bundle does not have everything.
pub(super) struct Absent {
    application: Application,
    /// What the bundle does not have.
    parts: String,
}

impl Absent {
    pub(super) fn new(application: &Application, parts: &[String]) -> Self {
        Self {
            application: application.clone(),
            parts: parts.join(", "),
        }
    }

    async fn found(&self, host: &dyn Host) -> Result<Check, StepError> {
        let installed = releases(Server::of(host)).await?;
        if !is_installed(&installed, &self.application) {
            return Ok(Check::needed(self.missing()));
        }
        let text = format!(
            "the application {} stays as it is, because the bundle does not have it: {}",
            self.application.name, self.parts
        );
        let hint = "run kubexm app apply --bundle BUNDLE -f CLUSTER with a bundle that has it";
        Ok(Check::Reported(Message::new(text).hint(hint)))
    }

    fn missing(&self) -> String {
        format!(
            "neither the bundle nor the cluster has the application {}: {}",
            self.application.name, self.parts
        )
    }
}

impl Describe for Absent {
    fn id(&self) -> String {
        format!("absent {}", self.application.name)
    }

    fn describe(&self) -> String {
        let Application {
            name, namespace, ..
        } = &self.application;
        format!("Look for the application {name} in the namespace {namespace}")
    }
}

impl From<Absent> for Step {
    fn from(step: Absent) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for Absent {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        checked(self.found(host).await)
    }

    async fn apply(&self, _: &StepContext<'_>) -> Result<(), StepError> {
        Err(StepError::Other(Message::new(self.missing()).hint(HINT)))
    }
}
