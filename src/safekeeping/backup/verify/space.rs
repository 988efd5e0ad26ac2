//! The space in the directory for temporary files.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use super::Manifest;
use crate::backup::file::VisitError;
use kubexm_session::{CommandError, FileError};

/// etcdutl creates a log of 64 MiB beside the data, and can prepare another one.
const LOGS: u64 = 128 << 20;

/// Returns how many bytes a trial restore needs: the snapshot, the data, and what etcdutl writes meanwhile.
pub(super) fn of_trial(manifest: &Manifest) -> u64 {
    let snapshot = manifest.snapshot_size();
    snapshot.saturating_mul(3).saturating_add(LOGS)
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Returns what to do if the space is not sufficient.
pub(super) fn hint(needed: u64) -> String {
    format!(
        "set TMPDIR to a directory with {} MiB of free space, and run the same command again",
        mebibytes(needed)
    )
}

/// Checks the free space before the snapshot is copied, so that a lack is not found after minutes.
///
/// # Errors
/// It is not sufficient.
pub(super) fn check(folder: &Path, needed: u64) -> Result<(), VisitError> {
    // Some file systems do not state it.
    let free = fs4::available_space(folder).unwrap_or(u64::MAX);
    if free >= needed {
        return Ok(());
    }
    let cause = format!(
        "it has {} MiB of free space, and needs {} MiB",
        free >> 20,
        mebibytes(needed)
    );
    let error = FileError::new("restore the snapshot for a trial in", folder, cause);
    Err(VisitError::Other(error.hint(hint(needed)).into()))
}

/// Writes a part of a backup to a file.
///
/// # Errors
/// The backup cannot be read, or the file cannot be written.
pub(super) fn copy(content: &mut dyn Read, to: &Path, needed: u64) -> Result<(), VisitError> {
    let failed = |error: io::Error| {
        let error = FileError::io("write", to, &error).hint(hint(needed));
        VisitError::Other(CommandError::from(error))
    };
    let mut file = File::create(to).map_err(failed)?;
    let mut buffer = vec![0; 1 << 17];
    loop {
        let count = match content.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let part = buffer.get(..count).unwrap_or_default();
        file.write_all(part).map_err(failed)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::file;
    use crate::backup::file::tests::{example, identity, write};
    use crate::backup::manifest::SNAPSHOT;

    #[test]
    fn good_backup_is_not_called_damaged_if_the_disk_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let files = [(SNAPSHOT, vec![7; 4 << 20])];
        let manifest = example(&files);
        write(&path, &identity().into(), &manifest, &files);
        let visit = |manifest: &Manifest, _: &str, content: &mut dyn Read| {
            copy(content, Path::new("/dev/full"), of_trial(manifest))
        };
        let refused = file::read(&path, &identity(), |_, _| Ok(()), visit);
        let refused = refused.unwrap_err().to_string();
        assert_eq!(
            refused,
            "cannot write /dev/full: No space left on device (os error 28)\nhint: set TMPDIR to a directory with 140 MiB of \
             free space, and run the same command again"
        );
    }

    #[test]
    fn damaged_backup_is_called_so_while_it_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let files = [(SNAPSHOT, vec![7; 4 << 20])];
        write(&path, &identity().into(), &example(&files), &files);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
        let visit = |_: &Manifest, _: &str, content: &mut dyn Read| {
            copy(content, &folder.path().join("copy"), 0)
        };
        let refused = file::read(&path, &identity(), |_, _| Ok(()), visit);
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("it is damaged, or its end is missing"),
            "{refused}"
        );
    }

    #[test]
    fn space_is_checked_before_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path(), 1).unwrap();
        let Err(VisitError::Other(refused)) = check(folder.path(), u64::MAX) else {
            panic!("not refused");
        };
        let refused = refused.to_string();
        assert!(
            refused.contains("and needs 17592186044416 MiB\nhint: set TMPDIR"),
            "{refused}"
        );
    }
}
