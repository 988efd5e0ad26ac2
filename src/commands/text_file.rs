//! Writes text files atomically.

use std::path::Path;

use crate::CommandError;
use kubexm_types::write_atomic;

/// Replaces a file with this text. A failure leaves the previous content.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    write_atomic(path, text.as_bytes(), 0o644)
        .map_err(|error| CommandError::Bundle(format!("{}: {error}", path.display())))
}

/// Returns the folder of a file; the current folder for a bare file name.
pub(crate) fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}
