//! The key pair for files that a command keeps for an emergency: archives, and the kubeconfig of `system:masters`. With the
//! public key, each command can encrypt them; only what opens the keys of CAs opens the private one.

use age::secrecy::ExposeSecret;
use age::x25519;

use crate::encryption::KeyIdentity;
use crate::error::{PkiError, invalid};
use crate::store::{CertificateStore, StoredKey};
use crate::stream::Recipients;

/// The name of the pair in a store. The private key has the form of a file of age-keygen, and is stored like the key of a CA.
const NAME: &str = "archive";

impl CertificateStore {
    /// Creates the key pair of archives, if the store encrypts keys of CAs. A pair that exists stays.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn keep_archive_key(&self) -> Result<(), PkiError> {
        let public = format!("{NAME}.pub");
        let has = |file: &str| self.path(file).exists();
        if !self.encrypts() || has(&public) && has(&format!("{NAME}.key.age")) {
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
        match self.read_ca_key(NAME)? {
            StoredKey::Missing => Ok(None),
            StoredKey::Readable(key) => KeyIdentity::parse(&key)
                .map(Some)
                .map_err(|reason| invalid(NAME, reason)),
            StoredKey::Encrypted => Err(PkiError::EncryptedKey {
                purpose: "open the archive".to_owned(),
                path: self.path(&format!("{NAME}.key.age")).display().to_string(),
            }),
        }
    }
}

fn parsed(key: &str) -> Result<x25519::Identity, PkiError> {
    let parsed = key.trim().parse::<x25519::Identity>();
    parsed.map_err(|reason| invalid(NAME, reason))
}
