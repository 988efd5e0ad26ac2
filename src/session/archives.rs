//! The archives of a state directory: what commands save before a change that they cannot revert.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::sealed::Seal;
use crate::{CommandError, FileError, private_directory};
use kubexm_pki::{CertificateStore, KeyIdentity, is_mark};
use kubexm_types::event::Events;
use kubexm_types::{AtomicFile, Message, WarningKind, remove_if_exists, write_atomic};

/// The directory of archives in a state directory.
pub const FOLDER: &str = "archive";
/// The files with which what opens the keys of CAs opens an archive. The public key comes last: with it, an archive counts as encrypted.
const KEYS: [&str; 2] = ["archive.key.age", "archive.pub"];

/// The key of the pair in clear text, while a user changes the passphrase.
const KEY_OF_PAIR: &str = "archive.key";

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
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("crt" | "pub" | "age" | "sealed" | "json") => true,
        Some("key") => std::fs::read(path).is_ok_and(|content| is_mark(&content)),
        _ => false,
    }
}

/// Encrypts the archives that are in clear text, those of before the encryption. Notes each of them, and warns of each that
/// cannot be encrypted.
///
/// # Errors
/// The directory of archives cannot be read.
pub(crate) fn seal(
    state: &Path,
    identity: &KeyIdentity,
    events: &Events,
) -> Result<(), CommandError> {
    for archive in list(state)? {
        match seal_one(state, &archive, identity) {
            Ok(0) => {}
            Ok(files) => events.note(format!(
                "encrypted {files} files of the archive {}",
                archive.display()
            )),
            Err(error) => events.warn(WarningKind::StateDirectory, Message::from(&error)),
        }
    }
    Ok(())
}

/// Encrypts the files of an archive that are in clear text. Returns their number.
fn seal_one(state: &Path, archive: &Path, identity: &KeyIdentity) -> Result<usize, CommandError> {
    let mut clear = Vec::new();
    list_clear(archive, &mut clear)
        .map_err(|error| FileError::io("read the archive", archive, &error))?;
    let store =
        |state: &Path| CertificateStore::new(state.join("pki")).encrypted(Some(identity.clone()));
    // The pair of the archive cannot encrypt its own key.
    let is_key_of_pair = |file: &PathBuf| *file == archive.join("pki").join(KEY_OF_PAIR);
    if clear.iter().any(is_key_of_pair) {
        store(archive).keep_archive_key()?;
        clear.retain(|file| !is_key_of_pair(file));
    }
    let with_keys = if Seal::of(archive)?.encrypts() {
        archive
    } else {
        state
    };
    if clear.is_empty() || store(with_keys).archive_identity()?.is_none() {
        return Ok(0);
    }
    add_keys(state, archive)?;
    let seal = Seal::of(archive)?;
    for file in &clear {
        replace(&seal, file)
            .map_err(|error| FileError::io("encrypt the archived file", file, &error))?;
    }
    Ok(clear.len())
}

/// Adds the files with secrets in clear text below a directory.
fn list_clear(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    AtomicFile::remove_abandoned(folder);
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

/// Gives an archive the keys with which what opens the keys of CAs opens it, unless it has some.
///
/// # Errors
/// A file cannot be read or written.
pub fn add_keys(state: &Path, archive: &Path) -> Result<(), CommandError> {
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
    use crate::certificates::CaEncryption;
    use crate::certificates::tests::{encrypted_state, identity_file};
    use crate::clear_text;
    use crate::sealed::Opener;
    use crate::sealed::tests::{Warned, decrypt_key};
    use kubexm_types::Secret;

    /// Creates an archive with these files, and another directory of the user.
    fn archive_with(state: &Path, files: &[&str]) -> PathBuf {
        let archive = state.join(FOLDER).join("20260101T000000Z");
        std::fs::create_dir_all(archive.join("pki/kubernetes")).unwrap();
        for name in files {
            std::fs::write(archive.join(name), "SECRET").unwrap();
        }
        let own = state.join(FOLDER).join("my-copy");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("a.key"), "mine").unwrap();
        archive
    }

    /// They stayed in clear text. A command without the identity, as a reset, encrypted them for one that may be lost.
    #[tokio::test]
    async fn archives_of_before_the_encryption_are_encrypted_by_who_can_open_them() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let files = ["etcd-snapshot.db", "pki/kubernetes/sa.key", "admin.conf"];
        let archive = archive_with(state, &files);
        std::fs::write(archive.join("before-upgrade.json"), "{}").unwrap();
        let encryption = identity_file(state);
        encrypted_state(state, &encryption);
        let (warned, events) = Warned::events();
        clear_text::encrypt(state, None, &events).await;
        assert!(warned.all().is_empty());
        let wrong = CaEncryption::Passphrase(Secret("wrong".to_owned()));
        clear_text::encrypt(state, Some(&wrong), &events).await;
        assert!(warned.all()[0].contains("cannot decrypt the key"));
        assert!(files.iter().all(|name| archive.join(name).exists()));
        assert!(!archive.join("pki/archive.pub").exists());
        // A failure with one archive stops neither the others nor the command.
        let broken = state.join(FOLDER).join("20250101T000000Z");
        std::fs::create_dir_all(broken.join("admin.conf.age/x")).unwrap();
        std::fs::write(broken.join("admin.conf"), "SECRET").unwrap();
        let (warned, events) = Warned::events();
        clear_text::encrypt(state, Some(&encryption), &events).await;
        assert_eq!(warned.all().len(), 1, "{:?}", warned.all());
        assert!(warned.all()[0].contains("20250101T000000Z/admin.conf"));
        let opener = Opener::of(&archive, Some(&encryption)).unwrap();
        for name in files {
            assert!(!archive.join(name).exists(), "{name}");
            let opened = opener.open(&archive.join(name)).unwrap();
            assert_eq!(std::io::read_to_string(opened).unwrap(), "SECRET");
        }
        assert!(Opener::of(&archive, None).is_err());
        assert!(archive.join("before-upgrade.json").exists());
        assert!(state.join(FOLDER).join("my-copy/a.key").exists());
    }

    /// The pair encrypted its own key, so that nothing opened the archive.
    #[tokio::test]
    async fn key_of_an_archive_is_encrypted_with_the_identity() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let encryption = identity_file(state);
        encrypted_state(state, &encryption);
        let archive = archive_with(state, &["admin.conf"]);
        let key = archive.join("pki/archive.key");
        decrypt_key(state, &encryption, &key);
        clear_text::encrypt(state, Some(&encryption), &Events::silent()).await;
        assert!(!key.exists());
        let opener = Opener::of(&archive, Some(&encryption)).unwrap();
        let opened = opener.open(&archive.join("admin.conf")).unwrap();
        assert_eq!(std::io::read_to_string(opened).unwrap(), "SECRET");
    }
}
