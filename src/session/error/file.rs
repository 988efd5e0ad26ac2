//! Unusable files of this machine.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use kubexm_types::{ErrorKind, Message, disk_failure};

/// An unusable file or folder on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{}", Message::from(self))]
pub struct FileError {
    /// A verb and what the file is, as in "read the lock".
    action: Cow<'static, str>,
    path: PathBuf,
    cause: String,
    hint: Option<String>,
    kind: ErrorKind,
}

impl From<&FileError> for Message {
    fn from(error: &FileError) -> Self {
        let text = format!(
            "cannot {} {}: {}",
            error.action,
            error.path.display(),
            error.cause
        );
        Self::new(text).or_hint(error.hint.as_deref())
    }
}

impl FileError {
    /// Returns the error of an action on a file that a user named.
    pub fn new(
        action: impl Into<Cow<'static, str>>,
        path: &Path,
        cause: impl fmt::Display,
    ) -> Self {
        Self {
            action: action.into(),
            path: path.to_owned(),
            cause: cause.to_string(),
            hint: None,
            kind: ErrorKind::Configuration,
        }
    }

    /// Returns the error of an action on a file that the file system refused, with a hint if the cause shows one.
    pub fn io(action: impl Into<Cow<'static, str>>, path: &Path, cause: &io::Error) -> Self {
        Self {
            hint: disk_failure::hint(cause).map(str::to_owned),
            ..Self::new(action, path, cause)
        }
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Makes the failure one of writing a bundle, or a file that belongs to it.
    #[must_use]
    pub fn of_bundle(mut self) -> Self {
        self.kind = ErrorKind::Bundle;
        self
    }

    pub(super) fn kind(&self) -> ErrorKind {
        self.kind
    }
}
