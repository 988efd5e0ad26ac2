//! Records which folders do not exist yet, so that a reset may remove them with their content.

use async_trait::async_trait;

use super::{Undo, ask, look_for_mark, must};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_host::{Command, Host};
use kubexm_scripts::{marks, steps as scripts};
use kubexm_types::{HostPath, InvalidValue};

/// Folders that programs of the cluster make and fill. A reset keeps the folders that the host had before,
/// and removes from them only the files that the receipt records.
pub struct OwnFolders {
    /// Name of its mark.
    pub id: String,
    /// Whose folders they are, for people.
    pub title: String,
    /// Folders or single files.
    pub paths: Vec<HostPath>,
}

impl OwnFolders {
    /// Folders by their paths.
    pub fn new(id: &str, title: &str, paths: &[&str]) -> Result<Self, InvalidValue> {
        let paths = paths
            .iter()
            .map(|path| HostPath::parse(path))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            id: id.to_owned(),
            title: title.to_owned(),
            paths,
        })
    }
}

impl Describe for OwnFolders {
    fn id(&self) -> String {
        format!("folders {}", self.id)
    }

    fn describe(&self) -> String {
        format!("Take note of {}", self.title)
    }
}

impl From<OwnFolders> for Step {
    fn from(step: OwnFolders) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for OwnFolders {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        ask(host, self.describe(), look_for_mark(&self.id)).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let paths = self.paths.iter().map(ToString::to_string);
        let missing = must(
            context.host,
            &self.describe(),
            Command::from_script(scripts::MISSING_PATHS, paths),
        )
        .await?
        .text();
        for path in &self.paths {
            if missing.lines().any(|line| line == path.as_str()) {
                let undo = Undo::RemoveTree { path: path.clone() };
                context
                    .undo
                    .record(&Describe::id(self), undo.to_value()?)
                    .await?;
            }
        }
        must(
            context.host,
            &self.describe(),
            Command::from_script(marks::SET, [self.id.clone()]),
        )
        .await
        .map(|_| ())
    }
}
