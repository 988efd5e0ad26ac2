//! Directories on this machine that only the user can read.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::macros::format_description;

use crate::{CommandError, FileError};

/// Creates a directory and those above it. `action` is a verb and what the directory is, as in "create the archive".
///
/// # Errors
/// The file system refuses it.
pub fn create(folder: &Path, action: &'static str) -> Result<(), FileError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| FileError::io(action, folder, &error))
}

/// Creates a directory below `parent` whose name is the current time, as in `20260131T093000Z`.
///
/// # Errors
/// The file system refuses it.
pub fn create_for_now(parent: &Path, action: &'static str) -> Result<PathBuf, CommandError> {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let now = OffsetDateTime::now_utc().format(format);
    let folder = parent.join(now.map_err(CommandError::defect)?);
    create(&folder, action)?;
    Ok(folder)
}

/// Returns whether a name is a time, as that of a directory of [`create_for_now`].
pub fn is_time(name: &str) -> bool {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    time::PrimitiveDateTime::parse(name, format).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn directory_of_now_is_private_and_named_after_the_time() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("archive");
        let folder = create_for_now(&parent, "create the archive").unwrap();
        for private in [&parent, &folder] {
            let mode = private.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", private.display());
        }
        assert!(is_time(folder.file_name().unwrap().to_str().unwrap()));
        assert!(!is_time("20261331T093000Z") && !is_time("20260131T093000Z.old"));
    }
}
