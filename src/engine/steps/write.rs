//! Write a file.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Undo, must};
use crate::plan::{
    Check, Describe, Ensure, FileContent, PlannedFile, Step, StepContext, StepError,
};
use kubexm_host::{Command, Host, Input};
use kubexm_scripts::steps as scripts;
use kubexm_types::{Digest, HostPath};

/// A file's text.
#[derive(Clone)]
pub enum Content {
    /// Known when planning.
    Text(String),
    /// Known only when other tasks have run; `preview` stands for it in plans.
    Later {
        /// What `render` shows.
        preview: String,
        /// Makes the text.
        produce: Arc<dyn Fn() -> Result<String, StepError> + Send + Sync>,
    },
}

/// Puts a file on the host with just this content and mode.
pub struct WriteFile {
    /// Where.
    pub path: HostPath,
    /// Permission bits.
    pub mode: u32,
    /// What.
    pub content: Content,
    /// Whether `render` may show the text.
    pub secret: bool,
    /// Whether a reset leaves the file to an earlier step, which knows when nothing needs it any
    /// more; else the reset begins with what was done last.
    pub removed_elsewhere: bool,
}

impl WriteFile {
    /// A file that everybody may read.
    pub fn new(path: HostPath, text: impl Into<String>) -> Self {
        Self {
            path,
            mode: 0o644,
            content: Content::Text(text.into()),
            secret: false,
            removed_elsewhere: false,
        }
    }

    /// A file that only root may read, and that is never shown.
    pub fn secret(path: HostPath, text: impl Into<String>) -> Self {
        Self {
            path,
            mode: 0o600,
            content: Content::Text(text.into()),
            secret: true,
            removed_elsewhere: false,
        }
    }

    fn text(&self) -> Result<String, StepError> {
        match &self.content {
            Content::Text(text) => Ok(text.clone()),
            Content::Later { produce, .. } => produce(),
        }
    }

    /// Writes down how the file is taken back.
    async fn record(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let prepare = Command::from_script(scripts::FILE_PREPARE, [self.path.to_string()]);
        let printed = must(context.host, &format!("look at {}", self.path), prepare)
            .await?
            .text();
        // The first record of a path tells its original state; a later one would tell ours.
        let undo = undo_of(&self.path, &printed)?;
        context.undo.record(&self.id(), undo.to_value()?).await
    }
}

/// The undo record for a path that is about to be written, from what [`FILE_PREPARE`](scripts::FILE_PREPARE) printed.
pub(super) fn undo_of(path: &HostPath, printed: &str) -> Result<Undo, StepError> {
    let other = |error: kubexm_types::InvalidValue| StepError::Other(error.to_string());
    let mut folders = Vec::new();
    for line in printed.lines() {
        if let Some(backup) = line.strip_prefix("backup ") {
            let backup = HostPath::parse(backup).map_err(other)?;
            return Ok(Undo::RestoreFile {
                path: path.clone(),
                backup,
            });
        }
        if let Some(folder) = line.strip_prefix("folder ") {
            folders.push(HostPath::parse(folder).map_err(other)?);
        }
    }
    Ok(Undo::RemoveFile {
        path: path.clone(),
        folders,
    })
}

impl Describe for WriteFile {
    fn id(&self) -> String {
        format!("file {}", self.path)
    }

    fn describe(&self) -> String {
        format!("Write {}", self.path)
    }

    fn files(&self) -> Vec<PlannedFile> {
        let content = match &self.content {
            _ if self.secret => FileContent::Secret,
            Content::Text(text) => FileContent::Text(text.clone()),
            Content::Later { preview, .. } => FileContent::Late(preview.clone()),
        };
        vec![PlannedFile {
            path: self.path.clone(),
            mode: self.mode,
            content,
        }]
    }
}

impl From<WriteFile> for Step {
    fn from(step: WriteFile) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for WriteFile {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let wanted = format!(
            "{} {:o} 0",
            Digest::of(self.text()?.as_bytes()).hex(),
            self.mode
        );
        let look = Command::from_script(scripts::FILE_LOOK, [self.path.to_string()]);
        let output = must(host, &format!("look at {}", self.path), look).await?;
        let found = output.text();
        Ok(match found.trim() {
            found if found == wanted => Check::Satisfied,
            "absent" => Check::Needed("is not there".to_owned()),
            _ => Check::Needed("differs".to_owned()),
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let text = self.text()?;
        if !self.removed_elsewhere {
            self.record(context).await?;
        }
        let digest = Digest::of(text.as_bytes());
        let input = Input::Bytes(text.into_bytes());
        let output =
            kubexm_host::upload::upload(context.host, &self.path, self.mode, &digest, input)
                .await?;
        StepError::unless_done(&self.describe(), output).map(|_| ())
    }
}
