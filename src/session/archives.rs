//! The archives of a state directory: what commands save before a change that they cannot revert.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::sealed::Seal;
use crate::{CommandError, FileError, private_directory};
use kubexm_types::{remove_if_exists, write_atomic};

/// The directory of archives in a state directory.
pub const FOLDER: &str = "archive";
/// The files with which what opens the keys of CAs opens an archive. The public key comes last: with it, an archive counts as encrypted.
const KEYS: [&str; 2] = ["archive.key.age", "archive.pub"];

/// Returns the archives of a state directory, the oldest first.
///
/// # Errors
/// The directory of archives cannot be read.
pub fn list(state: &Path) -> Result<Vec<PathBuf>, FileError> {
    let below = state.join(FOLDER);
    let failed = |error: io::Error| FileError::io("list the archives in", &below, &error);
    let mut found = Vec::new();
    if !below.exists() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(&below).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_archive = name.to_str().is_some_and(private_directory::is_time);
        if is_archive && entry.file_type().map_err(failed)?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a file of a state directory is one that everybody may read, or is encrypted.
pub fn is_public(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("crt" | "pub" | "age" | "sealed" | "json"))
}

/// Encrypts the files of archives that are in clear text, if the keys of CAs in the state directory are encrypted: the archives can be
/// of before that.
///
/// # Errors
/// A file cannot be read, written or removed.
pub fn seal(state: &Path) -> Result<(), CommandError> {
    if !Seal::of(state)?.encrypts() {
        return Ok(());
    }
    for archive in list(state)? {
        let mut clear = Vec::new();
        list_clear(&archive, &mut clear)
            .map_err(|error| FileError::io("read the archive", &archive, &error))?;
        if clear.is_empty() {
            continue;
        }
        add_keys(state, &archive)?;
        let seal = Seal::of(&archive)?;
        for file in clear {
            replace(&seal, &file)
                .map_err(|error| FileError::io("encrypt the archived file", &file, &error))?;
        }
    }
    Ok(())
}

/// Adds the files with secrets in clear text below a directory.
fn list_clear(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            list_clear(&path, found)?;
        } else if kind.is_file() && !is_public(&path) {
            found.push(path);
        }
    }
    Ok(())
}

/// Gives an archive the keys of the state directory, unless it has some.
fn add_keys(state: &Path, archive: &Path) -> Result<(), CommandError> {
    let pki = archive.join("pki");
    if Seal::of(archive)?.encrypts() {
        return Ok(());
    }
    private_directory::create(&pki, "create a directory of the archive")?;
    for name in KEYS {
        let from = state.join("pki").join(name);
        let copied =
            std::fs::read(&from).and_then(|content| write_atomic(&pki.join(name), &content, 0o600));
        copied.map_err(|error| FileError::io("copy to the archive", &from, &error))?;
    }
    Ok(())
}

fn replace(seal: &Seal, file: &Path) -> io::Result<()> {
    let mut encrypted = seal.create(file)?;
    io::copy(&mut File::open(file)?, &mut encrypted)?;
    encrypted.commit()?;
    remove_if_exists(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::tests::{encrypted_state, identity_file};
    use crate::sealed::Opener;

    /// They stayed in clear text: the documentation asked users to delete them.
    #[test]
    fn archives_of_before_the_encryption_are_encrypted_with_the_keys() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let archive = state.join(FOLDER).join("20260101T000000Z");
        let files = ["etcd-snapshot.db", "pki/kubernetes/sa.key", "admin.conf"];
        std::fs::create_dir_all(archive.join("pki/kubernetes")).unwrap();
        for name in files {
            std::fs::write(archive.join(name), "SECRET").unwrap();
        }
        std::fs::write(archive.join("before-upgrade.json"), "{}").unwrap();
        let own = state.join(FOLDER).join("my-copy");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("a.key"), "mine").unwrap();
        seal(state).unwrap();
        assert!(archive.join("admin.conf").exists());
        let encryption = identity_file(state);
        encrypted_state(state, &encryption);
        let opener = Opener::of(&archive, Some(&encryption)).unwrap();
        for name in files {
            assert!(!archive.join(name).exists(), "{name}");
            let opened = opener.open(&archive.join(name)).unwrap();
            assert_eq!(std::io::read_to_string(opened).unwrap(), "SECRET");
        }
        assert!(Opener::of(&archive, None).is_err());
        assert!(archive.join("before-upgrade.json").exists());
        assert!(own.join("a.key").exists());
    }
}
