//! What encrypts the keys of CAs in the state directory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::{CommandError, FileError};
use kubexm_pki::KeyIdentity;
use kubexm_types::Secret;

/// What encrypts the keys of CAs in the state directory.
#[derive(Debug, Clone)]
pub enum CaEncryption {
    /// An identity file of age.
    Identity(IdentityFile),
    /// A passphrase.
    Passphrase(Secret),
}

impl CaEncryption {
    /// Returns the encryption with an identity file of age, which is read when a command needs it.
    pub fn of_file(path: PathBuf) -> Self {
        Self::Identity(IdentityFile {
            path,
            identity: Arc::default(),
        })
    }

    /// Returns the identity of age.
    ///
    /// # Errors
    /// The file cannot be read, or is not an identity file.
    pub fn identity(&self) -> Result<KeyIdentity, CommandError> {
        match self {
            Self::Identity(file) => file.identity(),
            Self::Passphrase(passphrase) => Ok(KeyIdentity::of_passphrase(&passphrase.0)),
        }
    }
}

/// An identity file of age. Clones share its content, which is read once: `/dev/fd/3` can be a pipe.
#[derive(Clone)]
pub struct IdentityFile {
    path: PathBuf,
    /// The content, after it was read. Secret.
    identity: Arc<OnceLock<KeyIdentity>>,
}

impl IdentityFile {
    fn identity(&self) -> Result<KeyIdentity, CommandError> {
        if let Some(known) = self.identity.get() {
            return Ok(known.clone());
        }
        let read = identity_in(&self.path, "--ca-identity")?;
        Ok(self.identity.get_or_init(|| read).clone())
    }
}

impl fmt::Debug for IdentityFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// Reads an identity file of age, which the user passed with `option`.
///
/// # Errors
/// The file cannot be read, or is not an identity file.
pub fn identity_in(file: &Path, option: &str) -> Result<KeyIdentity, CommandError> {
    let failed = |cause: &dyn std::fmt::Display| {
        FileError::new("read the identity of age in", file, cause)
            .hint(format!("pass a file that `age-keygen` wrote with {option}"))
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    Ok(KeyIdentity::parse(&text).map_err(|reason| failed(&reason))?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An identity that protects nothing.
    pub(crate) const IDENTITY: &str =
        "AGE-SECRET-KEY-1QQQSYQCYQ5RQWZQFPG9SCRGWPUGPZYSNZS23V9CCRYDPK8QARC0SWRYDWG";

    /// `status --fix` needs the identity for the fix and for the state afterwards.
    #[test]
    fn identity_that_comes_from_a_pipe_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("identity");
        std::fs::write(&file, IDENTITY).unwrap();
        let encryption = CaEncryption::of_file(file.clone());
        let later = encryption.clone();
        encryption.identity().unwrap();
        std::fs::write(&file, "").unwrap();
        later.identity().unwrap();
        assert!(!format!("{later:?}").contains("AGE-SECRET"));
        let empty = CaEncryption::of_file(file);
        assert!(empty.identity().is_err());
    }

    #[test]
    fn file_without_an_identity_is_refused_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("identity");
        std::fs::write(&file, "a secret that is not an identity").unwrap();
        let error = identity_in(&file, "--ca-identity")
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("hint: ") && !error.contains("a secret"),
            "{error}"
        );
        assert!(identity_in(Path::new("/nothing/here"), "--ca-identity").is_err());
    }
}
