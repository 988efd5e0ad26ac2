//! Records which directories do not exist yet, so that a reset removes what the cluster stores in them.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::{Undo, check_marker, run_check, run_command};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_host::{Command, Host};
use kubexm_scripts::undo::PARENTS_REMOVE;
use kubexm_scripts::undo::directories::content;
use kubexm_scripts::undo::protected::is_protected_directory;
use kubexm_scripts::{markers, steps as scripts};
use kubexm_types::{HostPath, InvalidValue};

/// Directories that programs of the cluster create and fill.
///
/// A reset removes from the directories that did not exist before the install what programs of the cluster stored there
/// ([`content`]). In the others it removes only the files that the receipt records. The step creates a directory with
/// a marker before any program does, unless a program needs to create it. A reset also removes the directories above
/// them that did not exist, if they are empty.
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

    /// Returns the directories that the step creates with a marker, and their modes.
    fn created(&self) -> impl Iterator<Item = (&HostPath, &'static str)> {
        let unmarked = self.unmarked.as_deref();
        let paths = self.paths.iter();
        let marked = paths.filter(move |path| unmarked != Some(path.as_str()));
        marked.filter_map(|path| Some((path, content(path.as_str()).mode?)))
    }

    /// Returns those of the paths that do not exist on a host.
    async fn missing(&self, host: &dyn Host, paths: Vec<String>) -> Result<Vec<String>, StepError> {
        if paths.is_empty() {
            return Ok(paths);
        }
        let look = Command::from_script(scripts::MISSING_PATHS, paths);
        let missing = run_command(host, &self.describe(), look).await?.text();
        Ok(missing.lines().map(str::to_owned).collect())
    }

    /// Returns the directories above `paths` that a reset may remove, the innermost first.
    fn parents(&self) -> Vec<String> {
        let mut parents = BTreeSet::new();
        for path in &self.paths {
            let above = path.as_str().match_indices('/').skip(1);
            parents.extend(above.map(|(end, _)| &path.as_str()[..end]));
        }
        let is_own = |parent: &&str| self.paths.iter().all(|path| path.as_str() != *parent);
        let parents = parents.into_iter().rev().filter(is_own);
        let parents = parents.filter(|parent| !is_protected_directory(parent));
        parents.map(str::to_owned).collect()
    }
}

impl Describe for TrackNewDirs {
    fn id(&self) -> String {
        format!("folders {}", self.id)
    }

    fn describe(&self) -> String {
        format!("Record {} for a reset", self.title)
    }

    fn directories(&self) -> Vec<HostPath> {
        self.paths.clone()
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
        let marked = run_check(host, self.describe(), check_marker(&self.id)).await?;
        if !matches!(marked, Check::Satisfied) {
            return Ok(marked);
        }
        // An earlier install recorded other directories if a setting has changed since.
        let created = self.created().map(|(path, _)| path.to_string()).collect();
        let missing = self.missing(host, created).await?;
        Ok(match missing.first() {
            Some(path) => Check::needed(format!("{path} does not exist")),
            None => Check::Satisfied,
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let parents = self.parents();
        let paths = self.paths.iter().map(ToString::to_string);
        let paths = paths.chain(parents.iter().cloned()).collect();
        let missing = self.missing(context.host, paths).await?;
        let is_missing = |path: &str| missing.iter().any(|line| line == path);
        let mut parents = parents
            .into_iter()
            .filter(|path| is_missing(path))
            .peekable();
        if parents.peek().is_some() {
            // A reset reverts it after those of the directories, which are then gone.
            let undo = Undo::run(PARENTS_REMOVE, parents);
            let id = Describe::id(self);
            context.undo.record(&id, undo.to_value()?).await?;
        }
        for path in self.paths.iter().filter(|path| is_missing(path.as_str())) {
            let undo = Undo::RemoveDirectory { path: path.clone() };
            context
                .undo
                .record(&Describe::id(self), undo.to_value()?)
                .await?;
        }
        let created = self.created().filter(|(path, _)| is_missing(path.as_str()));
        let marked: Vec<String> = created
            .flat_map(|(path, mode)| [path.to_string(), mode.to_owned()])
            .collect();
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
