//! Keys of CAs that are encrypted on the controller, in the format of age (<https://age-encryption.org/v1>).

use age::secrecy::SecretString;
use age::{scrypt, x25519};

use crate::error::{PkiError, invalid};

/// scrypt's work factor of new keys, as a power of 2: about one second, as in the program `age`.
pub(super) const WORK_FACTOR: u8 = 18;
/// The largest work factor that kubexm accepts: about 16 seconds.
pub(super) const LARGEST_WORK_FACTOR: u8 = 22;

/// What encrypts and decrypts keys of CAs and backups. Secret, so there is no `Debug`.
#[derive(Clone)]
pub struct KeyIdentity(pub(super) Kind);

#[derive(Clone)]
pub(super) enum Kind {
    /// The identity of an identity file.
    Key(x25519::Identity),
    Passphrase(SecretString),
}

impl KeyIdentity {
    /// Parses an identity file as `age-keygen` writes it: one line with `AGE-SECRET-KEY-1…`, comments and blank
    /// lines.
    ///
    /// # Errors
    /// The file contains another line, several identities or none. The error quotes nothing of it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let lines = text.lines().map(str::trim);
        let mut identities = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let only = match (identities.next(), identities.next()) {
            (Some(only), None) => only,
            (None, _) => return Err("it does not contain an identity"),
            (Some(_), Some(_)) => return Err("it contains more than one line besides comments"),
        };
        let identity = only.parse::<x25519::Identity>();
        identity
            .map(|identity| Self(Kind::Key(identity)))
            .map_err(|_| "it does not contain an identity of the form AGE-SECRET-KEY-1…")
    }

    /// Creates an identity from a passphrase, as `age --passphrase` does.
    pub fn of_passphrase(passphrase: &str) -> Self {
        Self(Kind::Passphrase(SecretString::from(passphrase.to_owned())))
    }

    /// Encrypts the key of a CA. `name` is for the error.
    pub(super) fn encrypt(&self, name: &str, key: &str) -> Result<Vec<u8>, PkiError> {
        let encrypted = match &self.0 {
            Kind::Key(identity) => age::encrypt(&identity.to_public(), key.as_bytes()),
            Kind::Passphrase(passphrase) => {
                let mut recipient = scrypt::Recipient::new(passphrase.clone());
                recipient.set_work_factor(WORK_FACTOR);
                age::encrypt(&recipient, key.as_bytes())
            }
        };
        encrypted.map_err(|error| invalid(name, error))
    }

    /// Decrypts the key of a CA.
    pub(super) fn decrypt(&self, name: &str, encrypted: &[u8]) -> Result<String, PkiError> {
        let (key, hint) = match &self.0 {
            Kind::Key(identity) => (
                age::decrypt(identity, encrypted),
                "pass the identity file or the passphrase with which the key was encrypted",
            ),
            Kind::Passphrase(passphrase) => {
                let mut identity = scrypt::Identity::new(passphrase.clone());
                identity.set_max_work_factor(LARGEST_WORK_FACTOR);
                (
                    age::decrypt(&identity, encrypted),
                    "the passphrase is wrong, or the key was encrypted with an identity file (--ca-identity)",
                )
            }
        };
        let key = key.map_err(|error| {
            invalid(name, format!("cannot decrypt the key: {error}")).hint(hint)
        })?;
        String::from_utf8(key).map_err(|_| invalid(name, "the decrypted key is not PEM"))
    }
}
