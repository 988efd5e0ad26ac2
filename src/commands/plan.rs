//! `plan`: what a first install would do, computed without hosts.

use std::path::Path;
use std::sync::Arc;

use crate::{ClusterSource, CommandError, text_file};
use kubexm_deploy::Inputs;
use kubexm_engine::plan::{Plan, show};
use kubexm_types::event::Events;

pub use kubexm_engine::plan::document::PlanDocument;

/// A plan that no host has carried out.
pub struct Planned {
    pub(crate) plan: Plan,
}

impl Planned {
    /// Returns the plan as text: each task with its predecessors and steps.
    ///
    /// # Errors
    /// The tasks form a cycle.
    pub fn text(&self) -> Result<String, CommandError> {
        show::show(&self.plan).map_err(CommandError::configuration)
    }

    /// Returns the plan as a document, for `plan -o`.
    ///
    /// # Errors
    /// The tasks form a cycle.
    pub fn document(&self) -> Result<PlanDocument, CommandError> {
        PlanDocument::of(&self.plan).map_err(CommandError::configuration)
    }

    /// Emits one `planned` event for each task, in an order in which the tasks can run.
    ///
    /// # Errors
    /// The tasks form a cycle.
    pub fn emit(&self, events: &Events) -> Result<(), CommandError> {
        show::tell(&self.plan, events).map_err(CommandError::configuration)
    }
}

/// Plans a first install. Values that only a host knows are assumed, and secrets are placeholders.
///
/// # Errors
/// The bundle or the cluster file cannot be read, or the bundle does not contain what the cluster needs.
pub fn plan(source: &ClusterSource) -> Result<Planned, CommandError> {
    let (bundle, cluster) = source.open()?;
    let inputs = Inputs::unseen(&cluster, bundle.lock(), Arc::clone(&bundle) as _);
    let deployment = kubexm_deploy::plan(&inputs)?;
    Ok(Planned {
        plan: deployment.plan,
    })
}

/// Writes a plan as JSON.
///
/// # Errors
/// The file cannot be written.
pub fn save(path: &Path, document: &PlanDocument) -> Result<(), CommandError> {
    let text = document.to_json().map_err(CommandError::configuration)?;
    text_file::write(path, &text)
}
