//! Records of commands that have begun, as JSON in the state directory.

use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{CommandError, FileError};

/// Returns a record; `None` if the file does not exist. `what` and `hint` are parts of the error about a damaged one.
///
/// # Errors
/// The file cannot be read, or it is not such a record.
pub(crate) fn load<T: DeserializeOwned>(
    path: &Path,
    what: &'static str,
    hint: &str,
) -> Result<Option<T>, CommandError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::io("read", path, &error).into()),
    };
    let parsed = serde_json::from_str(&text);
    Ok(Some(parsed.map_err(|error| {
        FileError::new(what, path, &error).hint(hint)
    })?))
}

/// Removes a record, if there is one.
///
/// # Errors
/// The file cannot be removed.
pub(crate) fn remove(path: &Path) -> Result<(), CommandError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(FileError::io("remove", path, &error).into())
        }
        _ => Ok(()),
    }
}
