//! Options in the unit of a service, which runs in another directory and without open files of the user.

use std::path::Path;

use super::Failure;

/// Returns an option with an absolute path, for a service.
///
/// # Errors
/// The path is a file descriptor.
pub fn option_with_file(option: &str, path: &Path) -> Result<Vec<String>, Failure> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return Err(Failure::configuration(format!(
            "{option} {}: a run of a timer does not have this file",
            path.display()
        ))
        .hint(
            "pass a file that stays, and that only the owner of the \
             state directory reads",
        ));
    }
    Ok(vec![option.to_owned(), path.display().to_string()])
}
