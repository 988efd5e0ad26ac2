//! The names of volumes and of their list.

use std::path::{Path, PathBuf};

/// File name extension of the list of volumes.
const LIST: &str = "sha256";
/// Minimum number of digits of a volume's number.
const DIGITS: usize = 3;

/// Returns the path of a volume, counted from 1: `B.tar.zst.001`.
pub fn volume_path(name: &Path, number: usize) -> PathBuf {
    with_suffix(name, &format!("{number:0DIGITS$}"))
}

/// Returns the path of the list of volumes: `B.tar.zst.sha256`.
pub fn list_path(name: &Path) -> PathBuf {
    with_suffix(name, LIST)
}

fn with_suffix(name: &Path, suffix: &str) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the path of the bundle if `path` is one of its volumes or their list.
pub(super) fn without_suffix(path: &Path) -> Option<PathBuf> {
    let suffix = path.extension()?.to_str()?;
    let number = suffix.len() >= DIGITS && suffix.bytes().all(|byte| byte.is_ascii_digit());
    (number || suffix == LIST).then(|| path.with_extension(""))
}
