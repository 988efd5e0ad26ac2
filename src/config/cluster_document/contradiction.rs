//! Reports settings in different sections that contradict each other.

use crate::reader::Fields;
use crate::yaml::Node;

/// Refuses the setting at a path such as `spec.etcd.type`. A setting that the file does not contain is reported at the
/// place of `spec`.
pub(super) fn refuse(spec: &Fields<'_>, path: &str, message: &str, hint: &str) {
    spec.reader()
        .problem(node(spec, path), path, message, Some(hint));
}

/// Adds a notice: the file is accepted, and the user should change it.
pub(super) fn advise(spec: &Fields<'_>, path: &str, message: &str, hint: &str) {
    spec.reader()
        .notice(node(spec, path), path, message.to_owned(), hint);
}

/// Returns the place of a path, or that of `spec` if the file does not have it.
fn node<'a>(spec: &'a Fields<'_>, path: &str) -> &'a Node {
    path.strip_prefix("spec.")
        .and_then(|path| spec.at(path))
        .unwrap_or(spec.node())
}
