//! Records which directories do not exist yet, so that a reset removes what the cluster stores in them.

use async_trait::async_trait;

use super::{Undo, check_marker, run_check, run_command};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_host::{Command, Host};
use kubexm_scripts::undo::directories::content;
use kubexm_scripts::{markers, steps as scripts};
use kubexm_types::{HostPath, InvalidValue};

/// Directories that programs of the cluster create and fill.
///
/// A reset removes from the directories that did not exist before the install what programs of the cluster stored there
/// ([`content`]). In the others it removes only the files that the receipt records. The step creates a directory with
/// a marker before any program does, unless a program needs to create it.
pub struct TrackNewDirs {
    /// The name of the marker file.
    pub id: String,
    /// What the directories are, for the user, as in "containerd's directories".
    pub title: String,
    /// Directories, or single files.
    pub paths: Vec<HostPath>,
    /// The directory among `paths` that a program must create, because it refuses one with a marker.
    unmarked: Option<String>,
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
            unmarked: None,
        })
    }

    /// Leaves the creation of a directory to the program that uses it. A reset removes the directory when nothing
    /// else is left in it.
    #[must_use]
    pub fn created_by_programs(self, directory: Option<&str>) -> Self {
        Self {
            unmarked: directory.map(str::to_owned),
            ..self
        }
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
        let mut marked = Vec::new();
        for path in &self.paths {
            if missing.lines().any(|line| line == path.as_str()) {
                let undo = Undo::RemoveDirectory { path: path.clone() };
                context
                    .undo
                    .record(&Describe::id(self), undo.to_value()?)
                    .await?;
                let mode = content(path.as_str()).mode;
                let mode = mode.filter(|_| self.unmarked.as_deref() != Some(path.as_str()));
                if let Some(mode) = mode {
                    marked.extend([path.to_string(), mode.to_owned()]);
                }
            }
        }
        if !marked.is_empty() {
            let create = Command::from_script(scripts::DIRECTORY_CREATE, marked);
            run_command(context.host, &self.describe(), create).await?;
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
