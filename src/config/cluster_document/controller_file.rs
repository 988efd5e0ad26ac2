//! Fields that name a file on the controller.

use std::path::{Path, PathBuf};

use crate::reader::Fields;

/// Returns a path in which `~/` at the start stands for the home directory.
pub(super) fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}

/// Reads the path of a file, and reports a file that does not exist.
pub(super) fn read_file(fields: &Fields<'_>, name: &'static str) -> Option<PathBuf> {
    let path = expand_home(&fields.text(name)?);
    if !path.is_file() {
        report_missing(fields, name, &path);
    }
    Some(path)
}

/// Reports that the file which a field names does not exist.
pub(super) fn report_missing(fields: &Fields<'_>, name: &'static str, path: &Path) {
    let message = format!("the file {} does not exist", path.display());
    fields.problem(name, message, None);
}
