//! Passwords: `password`, `passwordFile` and `passwordEnv`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::controller_file::{expand_home, report_missing};
use crate::cluster::PasswordSource;
use crate::reader::Fields;
use crate::yaml::Node;
use kubexm_types::Secret;

/// Reads the source of a password. A problem does not contain the password.
pub(super) fn read_password(fields: &Fields<'_>) -> Option<PasswordSource> {
    let text = read_text(fields);
    let (file, variable) = read_elsewhere(fields);
    let given = ["password", "passwordFile", "passwordEnv"];
    let mut given = given.into_iter().filter_map(|name| fields.get(name));
    if let (Some(_), Some(node)) = (given.next(), given.next()) {
        fields.reader().problem(
            node,
            &fields.path("password"),
            "password, passwordFile and passwordEnv exclude each other",
            Some("keep one of them"),
        );
    }
    text.or(file).or(variable)
}

/// Reads `passwordFile` and `passwordEnv`.
pub(super) fn read_elsewhere(
    fields: &Fields<'_>,
) -> (Option<PasswordSource>, Option<PasswordSource>) {
    let file = fields.text("passwordFile");
    let file = file.map(|path| PasswordSource::File(expand_home(&path)));
    let variable = read_variable(fields, "passwordEnv");
    (file, variable.map(PasswordSource::Variable))
}

fn read_text(fields: &Fields<'_>) -> Option<PasswordSource> {
    let text = fields.text("password")?;
    if text.chars().any(char::is_control) {
        let message = "contains a line break or another control character";
        let hint = "write the password in one line, in quotes";
        fields.problem("password", message, Some(hint));
        return None;
    }
    Some(PasswordSource::Text(Secret(text)))
}

/// Reads the name of an environment variable.
pub(super) fn read_variable(fields: &Fields<'_>, field: &'static str) -> Option<String> {
    let name = fields.text(field)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty()
        || !name.chars().all(is_name)
        || name.starts_with(|c: char| c.is_ascii_digit())
    {
        let hint = "write the name alone, as in SITE_PASSWORD";
        let message = "expected the name of an environment variable";
        fields.problem(field, message, Some(hint));
        return None;
    }
    Some(name)
}

/// Adds a problem if the file with the password does not exist, and a notice if other users can read it. Cluster files
/// of earlier versions of kubexm name such files.
pub(super) fn check_password_file(fields: &Fields<'_>, source: Option<&PasswordSource>) {
    let (Some(PasswordSource::File(path)), Some(node)) = (source, fields.get("passwordFile"))
    else {
        return;
    };
    if path.exists() {
        notice_readers(fields, "passwordFile", node, path);
    } else {
        report_missing(fields, "passwordFile", path);
    }
}

/// Adds a notice if other users can read a file with a secret.
pub(super) fn notice_readers(fields: &Fields<'_>, name: &'static str, node: &Node, path: &Path) {
    if is_readable_by_others(path) {
        let message = format!("other users can read {}", path.display());
        let hint = format!("run `chmod 600 {}`", path.display());
        fields
            .reader()
            .notice(node, &fields.path(name), message, &hint);
    }
}

/// Returns whether a path is a regular file that other users can read.
pub(super) fn is_readable_by_others(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o077 != 0)
}
