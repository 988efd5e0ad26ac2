//! Reports settings in different sections that contradict each other.

use crate::reader::Fields;

/// Refuses the setting at a path such as `spec.etcd.type`. A setting that the file does not contain is reported at the
/// place of `spec`.
pub(super) fn refuse(spec: &Fields<'_>, path: &str, message: &str, hint: &str) {
    let node = path
        .strip_prefix("spec.")
        .and_then(|path| spec.at(path))
        .unwrap_or(spec.node());
    spec.reader().problem(node, path, message, Some(hint));
}
