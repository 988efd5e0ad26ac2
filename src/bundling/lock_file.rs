//! Lock files beside bundles.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kubexm_bundle::{Bundle, Lock};
use kubexm_session::{CommandError, FileError, text_file};

/// Returns the path of the lock beside a bundle: `b.lock.yaml` for `b.tar.zst`.
pub fn beside(bundle: &Path) -> PathBuf {
    let name = bundle.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".tar.zst").unwrap_or(&name);
    bundle.with_file_name(format!("{stem}.lock.yaml"))
}

/// Reads a lock file; `None` if it does not exist.
pub fn read(path: &Path) -> Result<Option<Lock>, CommandError> {
    match std::fs::read_to_string(path) {
        Ok(text) => match Lock::from_yaml(&text) {
            Ok(lock) => Ok(Some(lock)),
            Err(reason) => Err(not_a_lock(path, &reason.to_string())),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::new("read the lock", path, error).into()),
    }
}

/// Reads a lock file that must exist.
pub fn read_existing(path: &Path) -> Result<Lock, CommandError> {
    read(path)?.ok_or_else(|| {
        let error = FileError::new("read the lock", path, "there is no such file");
        error.hint(WRITES_A_LOCK).into()
    })
}

const WRITES_A_LOCK: &str = "`kubexm bundle build` writes NAME.lock.yaml beside NAME.tar.zst, and `kubexm bundle lock` writes a lock";

fn not_a_lock(path: &Path, reason: &str) -> CommandError {
    // A file of another kind explains more than its first missing field.
    let kind = kubexm_config::kind_of(path).ok().flatten();
    let error = match kind {
        Some(kind) => FileError::new(
            "read the lock",
            path,
            format!("the file has `kind: {}`, and a lock has none", kind.name()),
        ),
        None => FileError::new("read the lock", path, reason),
    };
    error.hint(WRITES_A_LOCK).into()
}

/// Writes a lock file.
pub fn write(path: &Path, lock: &Lock) -> Result<(), CommandError> {
    let text = serde_saphyr::to_string(lock).map_err(CommandError::defect)?;
    text_file::write(path, &text)
}

/// Reads the lock of a bundle, or a lock file if the name ends in `.yaml`.
pub fn of_bundle_or_file(path: &Path) -> Result<Lock, CommandError> {
    if path.extension().is_some_and(|end| end == "yaml") {
        return read_existing(path);
    }
    Ok(Bundle::open(path)?.lock().clone())
}
