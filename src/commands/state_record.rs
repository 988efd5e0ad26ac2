//! Records of commands that have begun, as JSON in the state directory.

use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{CommandError, FileError};

/// The record of a renewal of certificates.
pub(crate) const RENEWAL: &str = "renewal.json";
/// The record of a rotation of authorities.
pub(crate) const ROTATION: &str = "rotation.json";
/// The record of an upgrade.
pub(crate) const UPGRADE: &str = "upgrade.json";
/// Records that are worthless without the hosts on which their commands have begun.
pub(crate) const OF_HOSTS: [&str; 3] = [RENEWAL, ROTATION, UPGRADE];

/// Returns the text of a record; `None` if the file does not exist.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read(path: &Path) -> Result<Option<String>, CommandError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::io("read", path, &error).into()),
    }
}

/// Returns a record; `None` if the file does not exist. `what` and `hint` are parts of the error about a damaged one.
///
/// # Errors
/// The file cannot be read, or it is not such a record.
pub(crate) fn load<T: DeserializeOwned>(
    path: &Path,
    what: &'static str,
    hint: &str,
) -> Result<Option<T>, CommandError> {
    let Some(text) = read(path)? else {
        return Ok(None);
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
