//! Records which directories do not exist yet, so that a reset removes them with their content.

use async_trait::async_trait;

use super::{Undo, check_marker, run_check, run_command};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_host::{Command, Host};
use kubexm_scripts::{markers, steps as scripts};
use kubexm_types::{HostPath, InvalidValue};

/// Directories that programs of the cluster create and fill.
///
/// A reset removes the directories that did not exist before the install. In the others it removes only
/// the files that the receipt records.
pub struct TrackNewDirs {
    /// The name of the marker file.
    pub id: String,
    /// What the directories are, for the user, as in "containerd's directories".
    pub title: String,
    /// Directories, or single files.
    pub paths: Vec<HostPath>,
}

impl TrackNewDirs {
    /// Creates the step from paths.
    ///
    /// # Errors
    /// A path is not absolute and normalized.
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

impl Describe for TrackNewDirs {
    fn id(&self) -> String {
        format!("folders {}", self.id)
    }

    fn describe(&self) -> String {
        format!("Record {} for a reset", self.title)
    }
}

impl From<TrackNewDirs> for Step {
    fn from(step: TrackNewDirs) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for TrackNewDirs {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        run_check(host, self.describe(), check_marker(&self.id)).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let paths = self.paths.iter().map(ToString::to_string);
        let missing = run_command(
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
        run_command(
            context.host,
            &self.describe(),
            Command::from_script(markers::SET, [self.id.clone()]),
        )
        .await
        .map(|_| ())
    }
}
