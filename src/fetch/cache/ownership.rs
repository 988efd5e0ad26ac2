//! Who may write the cache. kubexm runs programs from it, and a partial download has no digest yet.

use kubexm_types::Message;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use super::failed;
use crate::FetchError;

/// Permission bits that let the group or all users write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Creates a directory that only this user can access, if it does not exist. Checks that no other user can
/// write it.
///
/// # Errors
/// The directory cannot be created, belongs to another user, or is writable by other users.
pub(super) fn private_dir(path: &Path) -> Result<(), FetchError> {
    let fail = |source| failed(path, source);
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(fail)?;
    let directory = std::fs::metadata(path).map_err(fail)?;
    let user = std::fs::metadata("/proc/self").map_err(fail)?.uid();
    if directory.uid() != user {
        return Err(refused(
            path,
            &format!(
                "user {} owns the directory, and kubexm runs as user {user}",
                directory.uid()
            ),
            "name another directory with --cache, or run kubexm as the owner",
        ));
    }
    if directory.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(refused(
            path,
            &format!(
                "other users can write the directory (mode {:04o})",
                directory.mode() & 0o7777
            ),
            &format!(
                "run `chmod go-w {0}` and then `kubexm cache verify`, or name another directory with --cache",
                path.display()
            ),
        ));
    }
    Ok(())
}

fn refused(path: &Path, cause: &str, hint: &str) -> FetchError {
    let cause = Message::new(cause).hint(hint);
    failed(path, io::Error::new(io::ErrorKind::PermissionDenied, cause))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;
    use crate::Cache;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_new_cache_belongs_to_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/cache");
        Cache::open(&root).unwrap();
        for place in ["a", "a/cache", "a/cache/blobs/sha256", "a/cache/partial"] {
            let mode = std::fs::metadata(folder.path().join(place)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700, "{place}");
        }
        // A cache of an earlier version, whose directories all users could read.
        set_mode(&root, 0o755);
        Cache::open(&root).unwrap();
    }

    #[test]
    fn a_cache_that_other_users_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cache");
        let mut said = String::new();
        for (place, mode) in [("", 0o770), ("blobs/sha256", 0o777), ("partial", 0o1777)] {
            Cache::open(&root).unwrap();
            set_mode(&root.join(place), mode);
            said += &format!("{}\n", Cache::open(&root).unwrap_err());
            set_mode(&root.join(place), 0o700);
        }
        let said = said.replace(&folder.path().display().to_string(), "[folder]");
        insta::assert_snapshot!(said, @"
        the cache at [folder]/cache: other users can write the directory (mode 0770)
        hint: run `chmod go-w [folder]/cache` and then `kubexm cache verify`, or name another directory with --cache
        the cache at [folder]/cache/blobs/sha256: other users can write the directory (mode 0777)
        hint: run `chmod go-w [folder]/cache/blobs/sha256` and then `kubexm cache verify`, or name another directory with --cache
        the cache at [folder]/cache/partial: other users can write the directory (mode 1777)
        hint: run `chmod go-w [folder]/cache/partial` and then `kubexm cache verify`, or name another directory with --cache
        ");
    }

    #[test]
    #[ignore = "needs root, to give a directory to another user"]
    fn a_cache_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        chown(folder.path(), Some(65534), None).unwrap();
        let said = Cache::open(folder.path()).unwrap_err().to_string();
        let said = said.replace(&folder.path().display().to_string(), "[folder]");
        insta::assert_snapshot!(said, @"
        the cache at [folder]: user 65534 owns the directory, and kubexm runs as user 0
        hint: name another directory with --cache, or run kubexm as the owner
        ");
    }
}
