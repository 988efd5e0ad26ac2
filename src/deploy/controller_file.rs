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
    text(path, bytes_at_most(path, largest)?)
}

/// Returns the content of a file as text.
///
/// # Errors
/// It is not text.
pub(crate) fn text(path: &Path, content: Vec<u8>) -> Result<String, DeployError> {
    // The other form of the error quotes the content.
    String::from_utf8(content).map_err(|_| failed(path, std::io::Error::other("it is not UTF-8")))
}

/// Returns the content of a file with at most this many bytes.
///
/// # Errors
/// The file cannot be read, or is larger.
pub(crate) fn bytes_at_most(path: &Path, largest: u64) -> Result<Vec<u8>, DeployError> {
    let metadata = std::fs::metadata(path).map_err(|source| failed(path, source))?;
    let size = metadata.len();
    if size > largest {
        let message = format!("has {size} bytes, more than {largest}");
        return Err(failed(path, std::io::Error::other(message)));
    }
    std::fs::read(path).map_err(|source| failed(path, source))
}

fn failed(path: &Path, source: std::io::Error) -> DeployError {
    DeployError::File {
        path: path.display().to_string(),
        source,
    }
}
