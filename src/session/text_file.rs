//! Writes text files atomically.

use std::fmt;
use std::path::Path;

use crate::{CommandError, FileError};
use kubexm_types::{AtomicFile, write_atomic};

/// Replaces a file with this text. A failure leaves the previous content.
pub fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    write_atomic(path, text.as_bytes(), 0o644).map_err(|error| cannot_write(path, error).into())
}

/// Fails if a file cannot be written to this path, before work that takes minutes.
pub fn check(path: &Path) -> Result<(), CommandError> {
    refuse_folder(path)?;
    let probe = AtomicFile::create(path, 0o600);
    Ok(probe
        .map(|_| ())
        .map_err(|error| cannot_write(path, error))?)
}

/// Fails if the path of a new file is an existing folder.
pub fn refuse_folder(path: &Path) -> Result<(), CommandError> {
    if path.is_dir() {
        let error = cannot_write(path, "it is a folder");
        return Err(error.hint("give the path of a file").into());
    }
    Ok(())
}

fn cannot_write(path: &Path, cause: impl fmt::Display) -> FileError {
    let error = FileError::new("write", path, cause).of_bundle();
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.exists() => {
            error.hint(format!("create the folder {}", folder.display()))
        }
        _ => error,
    }
}
