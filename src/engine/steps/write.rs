//! Writes a file.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::difference::unified_and_redacted;
use super::{Undo, run_command};
use crate::plan::{
    Check, Describe, Ensure, FileContent, PlannedFile, Step, StepContext, StepError,
};
use kubexm_host::{Command, Host, Input};
use kubexm_scripts::steps as scripts;
use kubexm_types::{Digest, HostPath};

/// Prints a file of at most 256 KiB in base64, and nothing for a larger one or a link.
const READ: &str = "[ ! -f \"$1\" ] || [ -L \"$1\" ] || [ \"$(stat -c %s \"$1\")\" -gt 262144 ] || base64 -w 0 <\"$1\"";

/// The content of a file.
#[derive(Clone)]
pub enum Content {
    /// Text that is known when kubexm plans.
    Text(String),
    /// Text that is known only after other tasks have run.
    Deferred {
        /// The text with placeholders, for `kubexm render`.
        preview: String,
        /// Renders the text when the step runs.
        render: Arc<dyn Fn() -> Result<String, StepError> + Send + Sync>,
    },
}

/// A file on the host with this content, mode and owner.
pub struct WriteFile {
    pub path: HostPath,
    /// Permission bits, as in 0o644.
    pub mode: u32,
    /// The user, which exists when the step runs; `None` for root.
    pub user: Option<String>,
    /// The group of the file, which exists when the step runs; `None` for any group.
    pub group: Option<String>,
    pub content: Content,
    /// Whether the content is secret. `kubexm render` then does not show it.
    pub secret: bool,
    /// Whether the undo record of an earlier step removes the file. The step then adds no undo record. It is
    /// for files that must exist longer than the reverse order of the steps allows.
    pub removed_elsewhere: bool,
}

impl WriteFile {
    /// Creates a step for a file with mode 0644.
    pub fn new(path: HostPath, text: impl Into<String>) -> Self {
        Self {
            path,
            mode: 0o644,
            user: None,
            group: None,
            content: Content::Text(text.into()),
            secret: false,
            removed_elsewhere: false,
        }
    }

    /// Creates a step for a secret file with mode 0600.
    pub fn secret(path: HostPath, text: impl Into<String>) -> Self {
        Self {
            path,
            mode: 0o600,
            user: None,
            group: None,
            content: Content::Text(text.into()),
            secret: true,
            removed_elsewhere: false,
        }
    }

    /// Lets the members of a group read the file: with the mode 0640, if other users cannot read it.
    #[must_use]
    pub fn readable_by(self, group: &'static str) -> Self {
        Self {
            mode: self.mode | 0o040,
            group: Some(group.to_owned()),
            ..self
        }
    }

    /// Returns the owner as an argument of `chown`; `None` for root.
    fn owner(&self) -> Option<String> {
        let (user, group) = (self.user.as_deref(), self.group.as_deref());
        match (user, group) {
            (None, None) => None,
            (user, None) => user.map(str::to_owned),
            (user, Some(group)) => Some(format!("{}:{group}", user.unwrap_or_default())),
        }
    }

    fn text(&self) -> Result<String, StepError> {
        match &self.content {
            Content::Text(text) => Ok(text.clone()),
            Content::Deferred { render, .. } => render(),
        }
    }

    /// Returns how the file on the host differs from the desired one. A secret file differs without details.
    async fn difference(&self, host: &dyn Host) -> Result<Check, StepError> {
        if self.secret {
            return Ok(Check::needed("differs (secret)"));
        }
        let read = Command::script(READ, [self.path.to_string()]);
        let printed = run_command(host, &format!("read {}", self.path), read).await?;
        let content = STANDARD.decode(printed.text().trim()).unwrap_or_default();
        Ok(match String::from_utf8(content) {
            Ok(former) if !former.is_empty() => Check::Needed {
                reason: format!("differs\n{}", unified_and_redacted(&former, &self.text()?)),
                shows_lines: true,
            },
            _ => Check::needed("differs"),
        })
    }

    /// Adds the undo record.
    async fn record(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        // A secret has no digest in an argument, and no copy of its former content.
        let digest = if self.secret {
            String::new()
        } else {
            Digest::of(self.text()?.as_bytes()).hex()
        };
        let parameters = scripts::FilePrepare {
            path: self.path.to_string(),
            secret: if self.secret { "yes" } else { "" }.to_owned(),
            digest,
        };
        let prepare = Command::from_script(scripts::FILE_PREPARE, parameters);
        let printed = run_command(context.host, &format!("read {}", self.path), prepare)
            .await?
            .text();
        // The script keeps the state before the first record of a path.
        match undo_of(&self.path, &printed)? {
            Some(undo) => context.undo.record(&self.id(), undo.to_value()?).await,
            None => Ok(()),
        }
    }
}

/// Returns the undo record of a file, from the output of [`FILE_PREPARE`](scripts::FILE_PREPARE). Returns `None` if
/// the receipt has a record that is still right.
pub(super) fn undo_of(path: &HostPath, printed: &str) -> Result<Option<Undo>, StepError> {
    let other = |error: kubexm_types::InvalidValue| StepError::Other(error.to_string().into());
    let mut folders = Vec::new();
    for line in printed.lines() {
        if line == "ours" {
            return Ok(None);
        }
        if let Some(backup) = line.strip_prefix("backup ") {
            let backup = HostPath::parse(backup).map_err(other)?;
            return Ok(Some(Undo::RestoreFile {
                path: path.clone(),
                backup,
            }));
        }
        if let Some(folder) = line.strip_prefix("folder ") {
            folders.push(HostPath::parse(folder).map_err(other)?);
        }
    }
    Ok(Some(Undo::RemoveFile {
        path: path.clone(),
        folders,
    }))
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
            Content::Deferred { preview, .. } => FileContent::Deferred(preview.clone()),
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
        let digest = Digest::of(self.text()?.as_bytes()).hex();
        let expected = format!("{digest} {:o}", self.mode);
        let look = Command::from_script(scripts::FILE_LOOK, [self.path.to_string()]);
        let output = run_command(host, &format!("read {}", self.path), look).await?;
        let found = output.text();
        let found = found.trim();
        if found == "absent" {
            return Ok(Check::needed("does not exist"));
        }
        let mut parts = found.rsplitn(4, ' ');
        let (user, group, number) = (parts.next(), parts.next(), parts.next());
        let is_user = match &self.user {
            Some(expected) => Some(expected.as_str()) == user,
            None => number == Some("0"),
        };
        if parts.next() != Some(&*expected) || !is_user {
            let mode = found.strip_prefix(&digest);
            return match mode {
                Some(mode) => Ok(Check::needed(format!("has another mode or owner:{mode}"))),
                None => self.difference(host).await,
            };
        }
        Ok(
            match self
                .group
                .as_deref()
                .filter(|expected| Some(*expected) != group)
            {
                Some(expected) => Check::needed(format!("does not belong to the group {expected}")),
                None => Check::Satisfied,
            },
        )
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let text = self.text()?;
        if !self.removed_elsewhere {
            self.record(context).await?;
        }
        let digest = Digest::of(text.as_bytes());
        let input = Input::Bytes(text.into_bytes());
        let output = kubexm_host::upload::upload(
            context.host,
            &self.path,
            self.mode,
            self.owner().as_deref(),
            &digest,
            input,
        )
        .await?;
        StepError::unless_done(&self.describe(), output).map(|_| ())
    }
}
