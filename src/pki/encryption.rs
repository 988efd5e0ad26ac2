//! Keys of CAs that are encrypted on the controller, in the format of age (<https://age-encryption.org/v1>).

use age::x25519::Identity;

use crate::error::{PkiError, invalid};

/// The identity that encrypts and decrypts keys of CAs. Secret, so there is no `Debug`.
#[derive(Clone)]
pub struct KeyIdentity(Identity);

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
        let identity = only.parse::<Identity>();
        identity
            .map(Self)
            .map_err(|_| "it does not contain an identity of the form AGE-SECRET-KEY-1…")
    }

    /// Encrypts the key of a CA. `name` is for the error.
    pub(super) fn encrypt(&self, name: &str, key: &str) -> Result<Vec<u8>, PkiError> {
        age::encrypt(&self.0.to_public(), key.as_bytes()).map_err(|error| invalid(name, error))
    }

    /// Decrypts the key of a CA.
    pub(super) fn decrypt(&self, name: &str, encrypted: &[u8]) -> Result<String, PkiError> {
        let hint = "hint: pass the identity file with which the key was encrypted";
        let key = age::decrypt(&self.0, encrypted)
            .map_err(|error| invalid(name, format!("cannot decrypt the key: {error}\n{hint}")))?;
        String::from_utf8(key).map_err(|_| invalid(name, "the decrypted key is not PEM"))
    }
}
