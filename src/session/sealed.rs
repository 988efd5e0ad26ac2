//! Files with secrets that a command keeps for an emergency. They are encrypted if the keys of CAs are.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::ca_encryption::CaEncryption;
use crate::{CommandError, FileError};
use kubexm_pki::{CertificateStore, EncryptedWriter, KeyIdentity, Recipients};
use kubexm_types::event::Events;
use kubexm_types::{AtomicFile, Message, WarningKind};

/// The end of the name of an encrypted file.
const ENCRYPTED: &str = "age";
const OWNER_ONLY: u32 = 0o600;

/// Writes files with secrets, in clear text or encrypted.
pub struct Seal(Option<Recipients>);

impl Seal {
    /// Returns the seal of a state directory: it encrypts if the keys of its CAs are encrypted.
    ///
    /// # Errors
    /// The public key cannot be read, or is damaged.
    pub fn of(state: &Path) -> Result<Self, CommandError> {
        let store = CertificateStore::read_only(state.join("pki"));
        Ok(Self(store.archive_recipients()?))
    }

    /// Does the same for a state directory whose keys are going to be encrypted: with what encrypts them, it gets the public key now.
    ///
    /// # Errors
    /// As [`Seal::of`], and the public key cannot be written.
    pub fn with(state: &Path, encryption: Option<&CaEncryption>) -> Result<Self, CommandError> {
        if let Some(encryption) = encryption {
            let identity = Some(encryption.identity()?);
            let store = CertificateStore::new(state.join("pki"));
            store.encrypted(identity).keep_archive_key()?;
        }
        Self::of(state)
    }

    /// Does the same for a state directory whose keys an earlier version has encrypted: that one has no public key. With what
    /// encrypts the keys, it gets one; otherwise emits a warning.
    ///
    /// # Errors
    /// As [`Seal::of`], and the public key cannot be written. The private key is in clear text, and there is no `encryption`.
    pub fn of_earlier(
        state: &Path,
        encryption: Option<&CaEncryption>,
        events: &Events,
    ) -> Result<Self, CommandError> {
        let store = CertificateStore::new(state.join("pki"));
        let clear = store.path("archive.key");
        if clear.exists() {
            if encryption.is_some() {
                return Self::with(state, encryption);
            }
            let cause = "it is in clear text: with the key inside, an archive is open to everybody, or to nothing";
            let hint = "encrypt it to archive.key.age with `age`, and remove it; a command with --ca-identity or the passphrase does so, too";
            return Err(FileError::new("archive", &clear, cause).hint(hint).into());
        }
        if store.lacks_archive_key()? {
            match encryption {
                Some(_) => return Self::with(state, encryption),
                None => events.warn(
                    WarningKind::StateDirectory,
                    Message::new(
                        "the archive is in clear text: the state directory of an earlier version has no key for it",
                    )
                    .hint("run `kubexm install` or `kubexm certs renew` with what encrypts the keys of CAs: these commands also encrypt the archive"),
                ),
            }
        }
        Self::of(state)
    }

    /// Returns whether it encrypts.
    pub fn encrypts(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a file. An encrypted one gets the ending `.age`.
    ///
    /// # Errors
    /// The folder does not exist or cannot be written.
    pub fn create(&self, path: &Path) -> io::Result<SealedFile> {
        let sealed = match &self.0 {
            None => path.to_owned(),
            Some(_) => encrypted(path),
        };
        let file = AtomicFile::create(&sealed, OWNER_ONLY)?;
        let writer = match &self.0 {
            None => Writer::Clear(file),
            Some(recipients) => Writer::Encrypted(Box::new(recipients.encrypt(file)?)),
        };
        Ok(SealedFile { writer, sealed })
    }

    /// Writes a file. Returns its path.
    ///
    /// # Errors
    /// The file system refuses it.
    pub fn write(&self, path: &Path, content: &[u8]) -> io::Result<PathBuf> {
        let mut file = self.create(path)?;
        file.write_all(content)?;
        file.commit()
    }
}

/// A file that gets its name when it is complete.
pub struct SealedFile {
    writer: Writer,
    sealed: PathBuf,
}

enum Writer {
    Clear(AtomicFile),
    Encrypted(Box<EncryptedWriter<AtomicFile>>),
}

impl SealedFile {
    /// Writes the file to the disk, and gives it its name. Returns its path.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn commit(self) -> io::Result<PathBuf> {
        let file = match self.writer {
            Writer::Clear(file) => file,
            Writer::Encrypted(writer) => writer.finish()?,
        };
        file.commit().map(|()| self.sealed)
    }
}

impl Write for SealedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.writer {
            Writer::Clear(file) => file.write(bytes),
            Writer::Encrypted(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Writer::Clear(file) => file.flush(),
            Writer::Encrypted(writer) => writer.flush(),
        }
    }
}

/// Returns the file that was written for `path`: the encrypted one, or else that in clear text.
pub fn stored(path: &Path) -> Option<PathBuf> {
    let files = [encrypted(path), path.to_owned()];
    files.into_iter().find(|file| file.is_file())
}

/// Opens files of an archive, encrypted or not.
pub struct Opener(Option<KeyIdentity>);

impl Opener {
    /// Returns what opens the files of an archive, or of a state directory: `folder` has the key in `pki`, and `encryption`
    /// opens it.
    ///
    /// # Errors
    /// The key is encrypted, and `encryption` does not open it.
    pub fn of(folder: &Path, encryption: Option<&CaEncryption>) -> Result<Self, CommandError> {
        let store = CertificateStore::read_only(folder.join("pki"));
        if store.archive_recipients()?.is_none() {
            return Ok(Self(None));
        }
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        Self::of_store(&store.encrypted(identity))
    }

    /// Returns what opens files of a store, with its identity.
    ///
    /// # Errors
    /// The key is encrypted, and the identity does not open it.
    pub(crate) fn of_store(store: &CertificateStore) -> Result<Self, CommandError> {
        Ok(Self(store.archive_identity()?))
    }

    /// Opens the file that was written for `path`.
    ///
    /// # Errors
    /// There is none, or it is encrypted for another key.
    pub fn open(&self, path: &Path) -> Result<Box<dyn Read + Send>, FileError> {
        let failed = |cause: &dyn std::fmt::Display| FileError::new("read", path, cause);
        let sealed = stored(path).unwrap_or_else(|| path.to_owned());
        let file = File::open(&sealed).map_err(|error| FileError::io("read", path, &error))?;
        if sealed == path {
            return Ok(Box::new(file));
        }
        let Some(identity) = &self.0 else {
            return Err(failed(
                &"it is encrypted, and the archive has no key in `pki`",
            ));
        };
        let opened = identity.decrypt_stream(io::BufReader::new(file));
        opened
            .map(|reader| Box::new(reader) as Box<dyn Read + Send>)
            .map_err(|error| failed(&error))
    }
}

fn encrypted(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ENCRYPTED);
    name.into()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::certificates::tests::{encrypted_state, identity_file};
    use kubexm_types::Secret;
    use kubexm_types::event::{Event, Listener};

    /// The warnings of a command.
    #[derive(Default)]
    pub(crate) struct Warned(Mutex<Vec<String>>);

    impl Warned {
        pub(crate) fn events() -> (Arc<Self>, Events) {
            let warned = Arc::new(Self::default());
            (Arc::clone(&warned), Events::new(warned))
        }

        pub(crate) fn all(&self) -> Vec<String> {
            self.0.lock().unwrap().clone()
        }
    }

    /// Writes the private key of the pair of a state directory in clear text.
    pub(crate) fn decrypt_key(state: &Path, encryption: &CaEncryption, to: &Path) {
        let encrypted = File::open(state.join("pki/archive.key.age")).unwrap();
        let identity = encryption.identity().unwrap();
        let mut opened = identity.decrypt_stream(encrypted).unwrap();
        io::copy(&mut opened, &mut File::create(to).unwrap()).unwrap();
    }

    impl Listener for Warned {
        fn on(&self, event: &Event) {
            if let Event::Warning { message, .. } = event {
                self.0.lock().unwrap().push(message.clone());
            }
        }
    }

    fn text(opener: &Opener, path: &Path) -> String {
        let mut text = String::new();
        let mut reader = opener.open(path).unwrap();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn files_are_in_clear_text_as_long_as_the_keys_of_cas_are() {
        let folder = tempfile::tempdir().unwrap();
        let seal = Seal::of(folder.path()).unwrap();
        let file = folder.path().join("keys.tar");
        assert_eq!(seal.write(&file, b"CANARY").unwrap(), file);
        assert_eq!(stored(&file), Some(file.clone()));
        let opener = Opener::of(folder.path(), None).unwrap();
        assert_eq!(text(&opener, &file), "CANARY");
    }

    /// An archive of a reset had `ca.key` in clear text, although an identity encrypted the keys of the state directory.
    #[test]
    fn only_what_opens_the_keys_of_cas_opens_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let right = identity_file(state);
        encrypted_state(state, &right);
        let file = state.join("keys.tar");
        let sealed = Seal::of(state).unwrap().write(&file, b"CANARY").unwrap();
        assert_eq!(sealed, state.join("keys.tar.age"));
        assert_eq!(stored(&file), Some(sealed.clone()));
        let bytes = std::fs::read(&sealed).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"CANARY"));
        assert_eq!(
            text(&Opener::of(state, Some(&right)).unwrap(), &file),
            "CANARY"
        );
        let refused = |encryption| Opener::of(state, encryption).err().unwrap().to_string();
        assert!(refused(None).contains("archive.key.age is encrypted\nhint: pass what"));
        let wrong = CaEncryption::Passphrase(Secret("wrong".to_owned()));
        assert!(refused(Some(&wrong)).contains("cannot decrypt the key"));
    }

    /// An earlier version has encrypted keys without the pair of archives, and a reset has no identity.
    #[test]
    fn state_of_an_earlier_version_gets_its_key_or_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let encryption = identity_file(state);
        encrypted_state(state, &encryption);
        for file in ["archive.pub", "archive.key.age"] {
            std::fs::remove_file(state.join("pki").join(file)).unwrap();
        }
        let (warned, events) = Warned::events();
        assert!(!Seal::of_earlier(state, None, &events).unwrap().encrypts());
        let sealed = Seal::of_earlier(state, Some(&encryption), &events);
        assert!(sealed.unwrap().encrypts());
        assert!(Seal::of_earlier(state, None, &events).unwrap().encrypts());
        let warnings = warned.all();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("in clear text"), "{warnings:?}");
        // A user decrypts the keys to change the passphrase.
        let clear = state.join("pki/archive.key");
        decrypt_key(state, &encryption, &clear);
        let refused = Seal::of_earlier(state, None, &events).err().unwrap();
        assert!(
            refused
                .to_string()
                .contains("archive.key: it is in clear text"),
            "{refused}"
        );
        Seal::of_earlier(state, Some(&encryption), &events).unwrap();
        assert!(!clear.exists());
        Opener::of(state, Some(&encryption)).unwrap();
    }
}
