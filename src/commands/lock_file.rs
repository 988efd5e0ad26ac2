//! Lock files beside bundles.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::{CommandError, text_file};
use kubexm_bundle::{Bundle, Lock};

/// Returns the path of the lock beside a bundle: `b.lock.yaml` for `b.tar.zst`.
pub(crate) fn beside(bundle: &Path) -> PathBuf {
    let name = bundle.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".tar.zst").unwrap_or(&name);
    bundle.with_file_name(format!("{stem}.lock.yaml"))
}

/// Reads a lock file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Lock>, CommandError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Lock::from_yaml(&text)
            .map(Some)
            .map_err(|reason| CommandError::file(path, reason)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CommandError::file(path, error)),
    }
}

/// Writes a lock file.
pub(crate) fn write(path: &Path, lock: &Lock) -> Result<(), CommandError> {
    let text = serde_saphyr::to_string(lock)
        .map_err(|error| CommandError::Bundle(format!("{}: {error}", path.display())))?;
    text_file::write(path, &text)
}

/// Reads the lock of a bundle, or a lock file if the name ends in `.yaml`.
pub(crate) fn of_bundle_or_file(path: &Path) -> Result<Lock, CommandError> {
    if path.extension().is_some_and(|end| end == "yaml") {
        return read(path)?.ok_or_else(|| CommandError::file(path, "there is no such file"));
    }
    Ok(Bundle::open(path)?.lock().clone())
}
