//! Files on the controller whose content belongs on the hosts.

use std::path::Path;

use crate::DeployError;

/// Returns the text of a file.
///
/// # Errors
/// The file cannot be read, or is not text.
pub(crate) fn read(path: &Path) -> Result<String, DeployError> {
    std::fs::read_to_string(path).map_err(|source| failed(path, source))
}

/// Returns the text of a file with at most this many bytes.
///
/// # Errors
/// The file cannot be read, is larger, or is not text.
pub(crate) fn read_at_most(path: &Path, largest: u64) -> Result<String, DeployError> {
    let metadata = std::fs::metadata(path).map_err(|source| failed(path, source))?;
    let size = metadata.len();
    if size > largest {
        let message = format!("has {size} bytes, more than {largest}");
        return Err(failed(path, std::io::Error::other(message)));
    }
    read(path)
}

fn failed(path: &Path, source: std::io::Error) -> DeployError {
    DeployError::File {
        path: path.display().to_string(),
        source,
    }
}
