//! What encrypts and decrypts backups.

use std::path::{Path, PathBuf};

use crate::{CommandError, FileError};
use kubexm_pki::{KeyIdentity, Recipients};
use kubexm_types::Secret;

/// For whom a backup is encrypted.
#[derive(Debug, Clone)]
pub enum BackupRecipients {
    /// Public keys of age: `age1…`. This machine cannot read the backup then.
    Keys(Vec<String>),
    /// A passphrase.
    Passphrase(Secret),
}

impl BackupRecipients {
    /// Returns the recipients of age.
    ///
    /// # Errors
    /// A text is not a public key.
    pub(crate) fn parsed(&self) -> Result<Recipients, CommandError> {
        match self {
            Self::Passphrase(passphrase) => Ok(KeyIdentity::of_passphrase(&passphrase.0).into()),
            Self::Keys(keys) => Recipients::parse(keys).map_err(|cause| {
                CommandError::Configuration(format!(
                    "cannot encrypt the backup: {cause}\nhint: `age-keygen -y IDENTITY` prints the public key of an \
                     identity"
                ))
            }),
        }
    }
}

/// Who reads a backup.
#[derive(Debug, Clone)]
pub enum BackupIdentity {
    /// An identity file of age.
    File(PathBuf),
    /// A passphrase.
    Passphrase(Secret),
}

impl BackupIdentity {
    /// Returns the identity of age.
    ///
    /// # Errors
    /// The file cannot be read, or is not an identity file.
    pub(super) fn parsed(&self) -> Result<KeyIdentity, CommandError> {
        match self {
            Self::Passphrase(passphrase) => Ok(KeyIdentity::of_passphrase(&passphrase.0)),
            Self::File(file) => read(file),
        }
    }
}

fn read(file: &Path) -> Result<KeyIdentity, CommandError> {
    let failed = |cause: &dyn std::fmt::Display| {
        FileError::new("read the identity of age in", file, cause)
            .hint("pass a file that `age-keygen` wrote with --identity")
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    Ok(KeyIdentity::parse(&text).map_err(|reason| failed(&reason))?)
}
