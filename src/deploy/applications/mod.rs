//! The applications of the user: charts and manifests of the bundle that an install applies when the cluster is ready.
//!
//! Each is a release of Helm, so that users see and change what kubexm installs with the program that they know. kubexm
//! wraps manifests in a chart.

mod absent;
mod addon;
mod chart;
mod effective;
mod failure;
mod former;
mod hidden;
mod installed;
mod object;
mod parts;
mod planned;
mod release;
mod resources;
mod secret_values;
mod stored;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use self::absent::{Absent, absent};
pub use self::absent::{MissingApplication, missing_applications};
use self::chart::Chart;
pub use self::chart::ChartContent;
pub use self::effective::effective_values;
use self::former::Former;
pub use self::hidden::Hidden;
pub use self::installed::{InstalledRelease, former, releases, unready_pods};
pub use self::object::ManifestObject;
use self::parts::Missing;
pub(crate) use self::parts::content;
pub use self::planned::{PlannedApplication, PlannedChange};
use self::release::Release;
pub use self::release::removal;
pub use self::resources::Resources;
pub use self::stored::{StoredRelease, removed_namespaces, stored_release};
pub use self::values::Secrets;
use super::module::{Component, Module};
use super::{DeployError, Deployment, Inputs, post_install};
use kubexm_bundle::Lock;
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_config::Cluster;
use kubexm_config::cluster::{Application, ApplicationContent, HostSpec};
use kubexm_engine::plan::{Plan, Task, TaskId, TaskName};
use kubexm_engine::steps::InstallFiles;
use kubexm_types::ReleaseName;

/// The name of the component that installs applications.
const HELM: &str = "helm";

/// The module of tasks that have the names of applications.
const MODULE: &str = "applications";
/// The module of the other tasks.
const RELEASES: &str = "helm";
/// Installs helm.
const PROGRAM: TaskName = TaskName::new(RELEASES, "install");
/// Compares the applications of earlier installs with those of the cluster file.
const FORMER: TaskName = TaskName::new(RELEASES, "former");

/// Returns whether a task is one of applications.
pub(super) fn is_task(task: &Task) -> bool {
    [MODULE, RELEASES].contains(&task.module.as_str())
}

/// The applications of the user.
pub(super) struct Applications;

impl Module for Applications {
    fn components(&self, inputs: &Inputs<'_>) -> Vec<Component> {
        let applications = &inputs.cluster.applications;
        // Those that the cluster has need no program.
        let stays =
            |one| inputs.cluster_exists() && absent(applications, inputs.lock, one).is_some();
        if applications.iter().all(stays) {
            return Vec::new();
        }
        vec![Component::Newest(HELM)]
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        let missing = inputs.cluster.applications.iter();
        let missing = missing.filter_map(|application| content(inputs.lock, application).err());
        // A cluster may have them already: the plan looks.
        let exists = inputs.cluster_exists();
        let missing = missing.filter(|one| !exists || matches!(one, Missing::Choice(_)));
        missing.flat_map(Missing::texts).collect()
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        let Some(first) = inputs.first() else {
            return Ok(Vec::new());
        };
        let applications = &inputs.cluster.applications;
        let former = inputs.cluster_exists().then(|| {
            let task = FORMER.task(&first.name);
            task.after([post_install::READY.id(&first.name)])
                .step(Former::new(applications))
        });
        let mut tasks = tasks_of(inputs, first, applications)?;
        tasks.extend(former);
        Ok(tasks)
    }
}

/// Returns the values of the applications of a cluster, as JSON, by the names of their charts. Those of encrypted files and
/// `secretValues` are left out: the machine that builds a bundle does not have them.
///
/// # Errors
/// A file with values cannot be read.
pub fn values_of_charts(cluster: &Cluster) -> Result<BTreeMap<String, Vec<String>>, DeployError> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for application in &cluster.applications {
        if let Some(name) = application.content.chart() {
            let values = values_of(application, Secrets::LeftOut)?;
            let all = found.entry(name.to_owned()).or_default();
            all.push(values.to_string());
        }
    }
    Ok(found)
}

/// Returns the encrypted files with values of the charts of a cluster, which [`values_of_charts`] leaves out.
///
/// # Errors
/// A file cannot be read.
pub fn encrypted_values(cluster: &Cluster) -> Result<Vec<(&ReleaseName, PathBuf)>, DeployError> {
    let mut found = Vec::new();
    for application in &cluster.applications {
        if let ApplicationContent::Chart { values, .. } | ApplicationContent::Addon { values, .. } =
            &application.content
        {
            let files = values::encrypted(values)?.into_iter();
            found.extend(files.map(|file| (&application.name, file)));
        }
    }
    Ok(found)
}

/// The artifacts of an application in a bundle.
pub struct ApplicationParts<'a> {
    pub name: &'a ReleaseName,
    /// The chart, or the manifests.
    pub artifacts: Vec<&'a LockedArtifact>,
    /// Values for the chart; `None` for manifests. They may have secrets.
    pub values: Option<Value>,
    application: &'a Application,
}

impl<'a> ApplicationParts<'a> {
    /// Returns the parts of an application.
    ///
    /// # Errors
    /// The bundle does not have a part, or a file with values cannot be read.
    pub fn of(
        application: &'a Application,
        lock: &'a Lock,
        secrets: Secrets,
    ) -> Result<Self, DeployError> {
        let has_chart = application.content.chart().is_some();
        Ok(Self {
            name: &application.name,
            artifacts: content(lock, application)?,
            values: has_chart
                .then(|| values_of(application, secrets))
                .transpose()?,
            application,
        })
    }

    /// Returns the secret values, which messages of Helm can quote.
    ///
    /// # Errors
    /// A file with values cannot be read.
    pub fn hidden(&self) -> Result<Hidden, DeployError> {
        let all = self.values.as_ref().unwrap_or(&Value::Null);
        let plain = values_of(self.application, Secrets::LeftOut)?;
        Ok(Hidden::of(all, &plain, None))
    }
}

/// Returns the applications of a cluster of which the bundle has all parts.
///
/// # Errors
/// A file with values cannot be read.
pub fn application_parts<'a>(
    cluster: &'a Cluster,
    lock: &'a Lock,
) -> Result<Vec<ApplicationParts<'a>>, DeployError> {
    let applications = cluster.applications.iter();
    let complete = applications.filter(|one| content(lock, one).is_ok());
    complete
        .map(|application| ApplicationParts::of(application, lock, Secrets::Read))
        .collect()
}

/// Returns what the bundle does not have of an application; `None` if it has everything.
pub fn absent_parts(inputs: &Inputs<'_>, application: &Application) -> Option<Vec<String>> {
    absent(&inputs.cluster.applications, inputs.lock, application)
}

/// Returns those applications of the cluster of which the bundle has all parts, and the parts that it does not have.
///
/// # Errors
/// The bundle has several versions of a chart, and the application does not name one.
pub fn applications_of_bundle<'a>(
    inputs: &Inputs<'a>,
) -> Result<(Vec<&'a Application>, Vec<String>), DeployError> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for application in &inputs.cluster.applications {
        match absent_parts(inputs, application) {
            Some(parts) => {
                let is_new = |part: &String| !missing.contains(part);
                let parts: Vec<String> = parts.into_iter().filter(is_new).collect();
                missing.extend(parts);
            }
            None => {
                content(inputs.lock, application)?;
                found.push(application);
            }
        }
    }
    Ok((found, missing))
}

/// Plans the applications of a running cluster of which the bundle has all parts, and names the parts that it does not have.
///
/// # Errors
/// The bundle has several versions of a chart, and its application does not name one; or a file with values cannot be read.
pub fn applications(inputs: &Inputs<'_>) -> Result<(Plan, Vec<String>), DeployError> {
    let (planned, missing) = applications_of_bundle(inputs)?;
    let Some(first) = inputs.first() else {
        return Ok((Plan::default(), missing));
    };
    let mut tasks = tasks_of(inputs, first, planned)?;
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    for task in &mut tasks {
        task.after.retain(|id| ids.contains(id));
    }
    Ok((Plan { tasks }, missing))
}

/// Plans helm and applications. Each application waits for the end of the one before; `needs` alone decides which ones a failure
/// stops.
fn tasks_of<'a>(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    applications: impl IntoIterator<Item = &'a Application>,
) -> Result<Vec<Task>, DeployError> {
    let mut before: Option<TaskId> = None;
    let mut tasks = Vec::new();
    for application in applications {
        let task = task(inputs, first, application)?.after_end(before.take());
        before = Some(task.id());
        tasks.push(task);
    }
    if !tasks.is_empty() {
        tasks.splice(..0, programs(inputs, first)?);
    }
    Ok(tasks)
}

/// Plans helm on the control planes: one of them removes a release if the first one does not answer.
fn programs(inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError> {
    let mut tasks = Vec::new();
    for host in inputs.nodes() {
        // A bundle with applications alone uses the helm of an earlier install.
        let Ok(helm) = inputs.file(HELM, &host.name) else {
            continue;
        };
        if !inputs.cluster.is_control_plane(&host.name) {
            continue;
        }
        let step = InstallFiles {
            title: format!("helm {}", helm.version),
            payloads: super::payloads::members(helm, super::payloads::BIN, |name| name == HELM)?,
            blobs: Arc::clone(&inputs.blobs),
        };
        let task = PROGRAM.task(&host.name);
        tasks.push(task.after([post_install::READY.id(&first.name)]).step(step));
    }
    Ok(tasks)
}

fn id(name: &ReleaseName, first: &HostSpec) -> Task {
    Task::new(MODULE, name.as_str(), &first.name)
}

fn task(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    application: &Application,
) -> Result<Task, DeployError> {
    let needed = application.needs.iter();
    let needed: Vec<TaskId> = needed.map(|name| id(name, first).id()).collect();
    let absent = absent_parts(inputs, application);
    let helm = inputs.file(HELM, &first.name).ok();
    let helm = helm.filter(|_| absent.is_none());
    let task = id(&application.name, first)
        .after([post_install::READY.id(&first.name)])
        .after(helm.map(|_| PROGRAM.id(&first.name)))
        .after(needed);
    if let Some(parts) = absent {
        return Ok(task.step(Absent::new(application, parts)));
    }
    let parts = content(inputs.lock, application)?;
    let values = values_of(application, Secrets::Read)?;
    let chart = Chart::of(inputs, application, &parts)?;
    let plain = values_of(application, Secrets::LeftOut)?;
    let release = Release::new(application, &chart, (values, plain));
    Ok(chart.add_to(task).step(release))
}

/// Returns the values for the templates of an application. They may have secrets.
///
/// # Errors
/// A file cannot be read, or its content is not a mapping.
fn values_of(application: &Application, secrets: Secrets) -> Result<Value, DeployError> {
    Ok(match &application.content {
        ApplicationContent::Chart { values, .. } => values::merged(values, secrets)?.into(),
        ApplicationContent::Addon { kind, values, .. } => {
            addon::values(*kind, values, secrets)?.into()
        }
        ApplicationContent::AddonObjects(objects) => addon::site_values(objects, secrets)?,
        ApplicationContent::Manifests(_) => Value::Object(Map::new()),
    })
}

#[cfg(test)]
mod tests;
