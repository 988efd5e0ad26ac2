//! A plan as a JSON document, to be stored and compared (`kubexm plan -o`).
//!
//! The document has no secret and no digest of a secret. The same plan gives the same bytes.
//! `manifests/schema/plan.json` is its JSON schema.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::graph::{Graph, InvalidPlan};
use super::step::{Kind, Step};
use super::task::Plan;
use kubexm_types::{Digest, HostName, HostPath};

/// The version of the document's format.
pub const VERSION: u32 = 1;

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanDocument {
    /// See [`VERSION`].
    pub plan_version: u32,
    /// The hosts that the plan changes, sorted.
    pub hosts: Vec<HostName>,
    /// The tasks, in an order in which they can run.
    pub tasks: Vec<PlannedTask>,
}

/// A task of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannedTask {
    /// `module/name@host`.
    pub id: String,
    pub module: String,
    pub name: String,
    pub host: HostName,
    /// The sorted ids of the tasks that must succeed first: those that the task names, and those that
    /// provide the values that it requires.
    pub after: Vec<String>,
    /// The sorted ids of the tasks that must have ended first, whether they succeeded or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_end: Vec<String>,
    /// The names of the values that the task requires.
    pub requires: Vec<String>,
    /// The names of the values that the task provides.
    pub provides: Vec<String>,
    /// The steps, in the order in which they run.
    pub steps: Vec<PlannedStep>,
}

/// A step of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannedStep {
    pub kind: Kind,
    /// A name that is stable and unique within the host.
    pub id: String,
    /// One line for the user.
    pub title: String,
    /// The files that the step writes on the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileReference>,
}

/// A file of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileReference {
    /// The path on the host.
    pub path: HostPath,
    /// Permission bits as four octal digits, as in `0644`.
    pub mode: String,
    /// The digest of the content. A secret has none. Content that is known only while the plan runs has
    /// none either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl PlanDocument {
    /// Describes a plan.
    ///
    /// # Errors
    /// The plan is not consistent.
    pub fn new(plan: &Plan) -> Result<Self, InvalidPlan> {
        let graph = Graph::new(plan)?;
        let names =
            |values: &[&'static str]| values.iter().map(|value| (*value).to_owned()).collect();
        let task = |place: &usize| {
            let task = &plan.tasks[*place];
            let ids = |places: &[usize]| {
                let ids = places
                    .iter()
                    .map(|other| plan.tasks[*other].id().to_string());
                let sorted: BTreeSet<String> = ids.collect();
                sorted.into_iter().collect()
            };
            PlannedTask {
                id: task.id().to_string(),
                module: task.module.clone(),
                name: task.name.clone(),
                host: task.host.clone(),
                after: ids(&graph.before[*place]),
                after_end: ids(&graph.before_end[*place]),
                requires: names(&task.requires),
                provides: names(&task.provides),
                steps: task.steps.iter().map(planned_step).collect(),
            }
        };
        let hosts: BTreeSet<HostName> = plan.tasks.iter().map(|task| task.host.clone()).collect();
        Ok(Self {
            plan_version: VERSION,
            hosts: hosts.into_iter().collect(),
            tasks: graph.order.iter().map(task).collect(),
        })
    }

    /// Returns the document as JSON with a line feed at its end.
    ///
    /// # Errors
    /// `serde_json` cannot serialize the document.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

fn planned_step(step: &Step) -> PlannedStep {
    let files = step.files().into_iter().map(|file| FileReference {
        mode: format!("{:04o}", file.mode),
        digest: file.digest(),
        path: file.path,
    });
    PlannedStep {
        kind: step.kind(),
        id: step.id(),
        title: step.describe(),
        files: files.collect(),
    }
}
