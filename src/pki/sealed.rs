//! The key pair for secrets besides the keys of CAs: those of the store, and files that a command keeps for an emergency: archives,
//! and the kubeconfig of `system:masters`. With the public key, each command can encrypt them; only what opens the keys of CAs
//! opens the private one. One passphrase, which takes a second, so opens any number of secrets.

use std::io::Write;
use std::path::{Path, PathBuf};

use age::secrecy::ExposeSecret;
use age::x25519;

use crate::certificate::Certificate;
use crate::encryption::KeyIdentity;
use crate::error::{PkiError, invalid};
use crate::secret_keys;
use crate::signing_key::SigningKey;
use crate::store::{CertificateStore, StoredKey, failed};
use crate::stream::Recipients;
use kubexm_types::AtomicFile;

/// The name of the pair in a store. The private key has the form of a file of age-keygen, and is stored like the key of a CA.
const NAME: &str = "archive";
/// The end of the name of an encrypted secret. Those that end with `.age` are keys of CAs, which the identity itself opens.
const SEALED: &str = ".sealed";
/// The names of keys of service accounts: of the present one, and of the next one in a rotation.
const SIGNING: [&str; 2] = ["sa", "sa.next"];

/// What is in the place of an encrypted key of Secrets. A kubexm that does not know encrypted ones refuses it. Without a file, it
/// would create another key, and no API server could read the Secrets.
const MARK: &str = "# The key is encrypted. Its file has the ending .sealed, and an earlier kubexm cannot read it.\n";

/// Returns whether the content of a file only says that the key is encrypted.
pub fn is_mark(content: &[u8]) -> bool {
    content == MARK.as_bytes()
}

fn needs_mark(file: &str) -> bool {
    file.starts_with(secret_keys::PREFIX)
}

impl CertificateStore {
    /// Creates the key pair of archives, if the store encrypts keys of CAs. A pair that exists stays.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn keep_archive_key(&self) -> Result<(), PkiError> {
        let public = format!("{NAME}.pub");
        let has = |file: &str| self.path(file).exists();
        let is_clear = has(&format!("{NAME}.key"));
        if !self.encrypts() || !is_clear && has(&public) && has(&format!("{NAME}.key.age")) {
            return Ok(());
        }
        let key = match self.read_ca_key(NAME)? {
            StoredKey::Readable(key) => parsed(&key)?,
            StoredKey::Missing | StoredKey::Encrypted => {
                let key = x25519::Identity::generate();
                self.write_ca_key(NAME, &format!("{}\n", key.to_string().expose_secret()))?;
                key
            }
        };
        self.write(&public, &format!("{}\n", key.to_public()))
    }

    /// Returns whether the store has an encrypted key of a CA, but no key pair of archives.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn lacks_archive_key(&self) -> Result<bool, PkiError> {
        let mut names = self.encrypted_keys()?.into_iter();
        Ok(names.next().is_some() && !self.path(&format!("{NAME}.pub")).exists())
    }

    /// Returns for whom archives are encrypted; `None` if they are in clear text, as the keys of CAs.
    ///
    /// # Errors
    /// The public key cannot be read, or is damaged.
    pub fn archive_recipients(&self) -> Result<Option<Recipients>, PkiError> {
        let Some(text) = self.read(&format!("{NAME}.pub"))? else {
            return Ok(None);
        };
        let recipients = Recipients::parse(&[text]);
        recipients.map(Some).map_err(|reason| invalid(NAME, reason))
    }

    /// Returns what decrypts archives; `None` if they are in clear text.
    ///
    /// # Errors
    /// The identity of the store does not open the key, or there is none.
    pub fn archive_identity(&self) -> Result<Option<KeyIdentity>, PkiError> {
        self.private_key("open the archive")
    }

    /// Returns the private key. `purpose` is for the error.
    fn private_key(&self, purpose: &str) -> Result<Option<KeyIdentity>, PkiError> {
        match self.read_ca_key(NAME)? {
            StoredKey::Missing => Ok(None),
            StoredKey::Readable(key) => KeyIdentity::parse(&key)
                .map(Some)
                .map_err(|reason| invalid(NAME, reason)),
            StoredKey::Encrypted => Err(PkiError::EncryptedKey {
                purpose: purpose.to_owned(),
                path: self.path(&format!("{NAME}.key.age")).display().to_string(),
            }),
        }
    }

    /// Reads a file with a secret that is not the key of a CA; `None` if it does not exist. If it is in clear text and the store has
    /// an identity, an encrypted file takes its place.
    pub(super) fn read_secret(&self, file: &str) -> Result<Option<String>, PkiError> {
        let Some((text, is_clear)) = self.stored_secret(file)? else {
            return Ok(None);
        };
        if self.encrypts() {
            if is_clear {
                self.write_secret(file, &text)?;
            } else {
                self.mark(file)?;
            }
        }
        Ok(Some(text))
    }

    /// Returns a secret that is not the key of a CA; `None` if it does not exist. Changes nothing.
    ///
    /// # Errors
    /// The identity of the store does not open it, or a file in clear text beside the encrypted one has another secret.
    pub fn secret(&self, file: &str) -> Result<Option<String>, PkiError> {
        Ok(self.stored_secret(file)?.map(|(text, _)| text))
    }

    /// Returns a secret, and whether its file is in clear text.
    ///
    /// # Errors
    /// There is a file in clear text with another secret beside the encrypted one: none of them may be lost.
    pub(super) fn stored_secret(&self, file: &str) -> Result<Option<(String, bool)>, PkiError> {
        let path = self.path(&format!("{file}{SEALED}"));
        let clear = self.read(file)?;
        let is_marked = clear.as_ref().is_some_and(|text| is_mark(text.as_bytes()));
        let clear = clear.filter(|_| !is_marked);
        let encrypted = match std::fs::read(&path) {
            Ok(encrypted) => encrypted,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_marked => {
                let reason = format!("{} does not exist", path.display());
                return Err(
                    invalid(file, reason).hint("restore it from a backup of the state directory")
                );
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(clear.map(|text| (text, true)));
            }
            Err(source) => return Err(failed("read", &path, source)),
        };
        let text = self.opener(&path)?.decrypt_text(&encrypted);
        let text = text.map_err(|error| {
            invalid(file, format!("cannot decrypt {}: {error}", path.display())).hint(
                "restore this file and archive.key.age from the same backup of the state directory",
            )
        })?;
        match clear {
            Some(clear) if clear != text => Err(PkiError::TwoKeys {
                path: self.path(file).display().to_string(),
            }),
            // A run was killed before it removed the file in clear text.
            clear => Ok(Some((text, clear.is_some()))),
        }
    }

    /// Writes a file with a secret that is not the key of a CA, encrypted if the store has an identity. A file in clear text is removed
    /// when the encrypted one is on disk.
    pub(super) fn write_secret(&self, file: &str, text: &str) -> Result<(), PkiError> {
        if !self.encrypts() {
            return self.write(file, text);
        }
        let root = self.root();
        root.keep_archive_key()?;
        let Some(recipients) = root.archive_recipients()? else {
            return Err(invalid(NAME, "its public key does not exist"));
        };
        let encrypted = recipients.encrypt(Vec::new()).and_then(|mut writer| {
            writer.write_all(text.as_bytes())?;
            writer.finish()
        });
        let encrypted = encrypted.map_err(|error| invalid(file, error))?;
        self.write_bytes(&format!("{file}{SEALED}"), &encrypted)?;
        if needs_mark(file) {
            self.write(file, MARK)
        } else {
            self.remove(file)
        }
    }

    /// Writes the text in the place of an encrypted key that says so, if it is missing.
    fn mark(&self, file: &str) -> Result<(), PkiError> {
        if needs_mark(file) && !self.path(file).exists() {
            self.write(file, MARK)?;
        }
        Ok(())
    }

    /// Encrypts the keys in clear text of the store and of the directories in it, and removes files of killed processes. Returns why
    /// keys stay in clear text. One without a certificate stays if its name does not show whether it is the key of a CA.
    pub fn encrypt_remaining(&self) -> Vec<PkiError> {
        AtomicFile::remove_abandoned(&self.path(""));
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => return vec![error],
        };
        let mut failed = Vec::new();
        for name in names {
            if self.path(&name).is_dir() {
                failed.extend(self.subdirectory(&name).encrypt_remaining());
            } else if let Some(name) = name.strip_suffix(".key") {
                failed.extend(self.encrypt_key(name).err());
            }
        }
        failed
    }

    fn encrypt_key(&self, name: &str) -> Result<(), PkiError> {
        let certificate = self.read(&format!("{name}.crt"))?;
        let certificate = certificate.map(|text| Certificate::first(name, &text));
        let file = format!("{name}.key");
        match certificate.transpose()? {
            Some(certificate) if certificate.is_ca => self.read_ca_key(name).map(drop),
            Some(_) => self.read_secret(&file).map(drop),
            None if name.starts_with(secret_keys::PREFIX) => self.read_secret(&file).map(drop),
            None if SIGNING.contains(&name) => SigningKey::load_or_create(self, name).map(drop),
            None => Ok(()),
        }
    }

    /// Returns whether the store, or a directory in it, has encrypted secrets besides keys of CAs.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn has_sealed(&self) -> Result<bool, PkiError> {
        Ok(self.first_sealed()?.is_some())
    }

    /// Fails if the store, or a directory in it, has encrypted secrets besides keys of CAs, and its identity does not open them.
    ///
    /// # Errors
    /// The store does not have an identity, or another one encrypted them.
    pub fn opens_sealed(&self) -> Result<(), PkiError> {
        match self.first_sealed()? {
            Some(path) => self.opener(&path).map(drop),
            None => Ok(()),
        }
    }

    fn first_sealed(&self) -> Result<Option<PathBuf>, PkiError> {
        for name in self.names()? {
            let path = self.path(&name);
            if name.ends_with(SEALED) {
                return Ok(Some(path));
            }
            if path.is_dir()
                && let Some(found) = self.subdirectory(&name).first_sealed()?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns what opens an encrypted secret.
    fn opener(&self, path: &Path) -> Result<KeyIdentity, PkiError> {
        if let Some(known) = self.opener.get() {
            return Ok(known.clone());
        }
        let found = self
            .root()
            .private_key(&format!("read {}", path.display()))?;
        let found = found.ok_or_else(|| {
            invalid(
                NAME,
                format!(
                    "it does not exist, and {} is encrypted for it",
                    path.display()
                ),
            )
            .hint("restore archive.key.age from a backup of the state directory")
        })?;
        Ok(self.opener.get_or_init(|| found).clone())
    }
}

fn parsed(key: &str) -> Result<x25519::Identity, PkiError> {
    let parsed = key.trim().parse::<x25519::Identity>();
    parsed.map_err(|reason| invalid(NAME, reason))
}
