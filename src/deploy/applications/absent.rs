//! Applications of which the bundle does not have everything, and which the cluster has already: they stay as they are.

use std::fmt;

use async_trait::async_trait;
use kubexm_bundle::Lock;
use kubexm_config::Cluster;
use kubexm_config::cluster::{Application, ApplicationContent};
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_types::{Message, ReleaseName};
use serde_json::Value;

use super::installed::{InstalledRelease, label, releases};
use super::parts::{Missing, content};
use super::release::OTHER_VALUES;
use super::stored::{has_values, stored_release};
use super::{Secrets, values_of};
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

/// Returns the release of an application that the bundle does not have to bring.
///
/// # Errors
/// What the cluster has instead.
fn installed<'a>(
    releases: &'a [InstalledRelease],
    application: &Application,
) -> Result<&'a InstalledRelease, String> {
    let found = releases.iter().find(|one| one.is_of(application));
    let Some(found) = found.filter(|one| one.is_installed()) else {
        return Err("the cluster does not have it".to_owned());
    };
    if !found.is_of_kubexm {
        return Err("kubexm did not create its release in the cluster".to_owned());
    }
    if found.status != "deployed" {
        let InstalledRelease {
            revision, status, ..
        } = found;
        return Err(format!(
            "revision {revision} of its release in the cluster is {status}"
        ));
    }
    match other_version(found, application) {
        Some(version) => Err(format!("the cluster has version {version} of its chart")),
        None => Ok(found),
    }
}

/// Returns the version of the chart of a release, if the application names another one.
fn other_version(found: &InstalledRelease, application: &Application) -> Option<String> {
    let (ApplicationContent::Chart { version, .. } | ApplicationContent::Addon { version, .. }) =
        &application.content
    else {
        return None;
    };
    let bare = |text: &str| label(text.trim_start_matches('v'));
    let (wanted, has) = (version.as_deref()?, found.chart_version.as_deref()?);
    (bare(wanted) != bare(has)).then(|| has.replace('_', "+"))
}

/// An application of which the bundle does not have everything, and which the cluster does not have as the cluster file states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingApplication {
    pub name: ReleaseName,
    /// What the bundle does not have.
    pub parts: Vec<String>,
    /// What the cluster has instead, as in `the cluster does not have it`.
    pub instead: String,
    /// Whether the applications of the bundle cannot do without it: one of them needs it, or there are none.
    pub is_needed: bool,
}

impl fmt::Display for MissingApplication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            parts,
            instead,
            ..
        } = self;
        let parts = parts.join(", ");
        write!(
            f,
            "the bundle does not have the application {name}, and {instead}: {parts}"
        )
    }
}

/// Returns the applications of which the bundle does not have everything, and which the cluster does not have. Asks the API server
/// only if the bundle does not have something.
///
/// # Errors
/// The API server does not answer.
pub async fn missing_applications(
    cluster: &Cluster,
    lock: &Lock,
    server: Server<'_>,
) -> Result<Vec<MissingApplication>, StepError> {
    let all = &cluster.applications;
    let (mut of_bundle, mut of_others) = (Vec::new(), Vec::new());
    for application in all {
        match absent(all, lock, application) {
            Some(parts) => of_others.push((application, parts)),
            None => of_bundle.push(application),
        }
    }
    if of_others.is_empty() {
        return Ok(Vec::new());
    }
    let releases = releases(server).await?;
    let missing = of_others.into_iter().filter_map(|(application, parts)| {
        let instead = installed(&releases, application).err()?;
        let name = application.name.clone();
        let mut needing = of_bundle.iter().filter(|one| one.needs.contains(&name));
        Some(MissingApplication {
            parts,
            instead,
            is_needed: of_bundle.is_empty() || needing.next().is_some(),
            name,
        })
    });
    Ok(missing.collect())
}

/// Fails if the cluster does not have an application, of which the bundle does not have everything.
pub(super) struct Absent {
    application: Application,
    /// What the bundle does not have.
    parts: Vec<String>,
    /// The values of the cluster file; `None` if this machine cannot read them, which nothing needs. They may have secrets.
    values: Option<Value>,
}

impl Absent {
    pub(super) fn new(application: &Application, parts: Vec<String>) -> Self {
        Self {
            application: application.clone(),
            parts,
            values: values_of(application, Secrets::Read).ok(),
        }
    }

    async fn found(&self, host: &dyn Host) -> Result<Check, StepError> {
        let server = Server::of(host);
        let releases = releases(server).await?;
        let found = match installed(&releases, &self.application) {
            Ok(found) => found,
            Err(instead) => return Ok(Check::needed(self.missing(instead).to_string())),
        };
        let mut text = format!(
            "the application {} stays as it is: the bundle does not have {}",
            self.application.name,
            self.parts.join(", ")
        );
        if let Some(values) = &self.values
            && !has_values(&stored_release(server, found).await?, values)
        {
            text.push_str(OTHER_VALUES);
        }
        let hint = "run kubexm app apply --bundle BUNDLE -f CLUSTER with a bundle that has it";
        Ok(Check::Reported(Message::new(text).hint(hint)))
    }

    fn missing(&self, instead: String) -> MissingApplication {
        MissingApplication {
            name: self.application.name.clone(),
            parts: self.parts.clone(),
            instead,
            is_needed: true,
        }
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

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let releases = releases(Server::of(context.host)).await?;
        match installed(&releases, &self.application) {
            Ok(_) => Ok(()),
            Err(instead) => {
                let text = self.missing(instead).to_string();
                Err(StepError::Other(Message::new(text).hint(HINT)))
            }
        }
    }
}
