//! What encrypts and decrypts backups.

use std::path::PathBuf;

use kubexm_pki::{KeyIdentity, Recipients};
use kubexm_session::CommandError;
use kubexm_session::certificates::identity_in;
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
    pub fn parsed(&self) -> Result<Recipients, CommandError> {
        match self {
            Self::Passphrase(passphrase) => Ok(KeyIdentity::of_passphrase(&passphrase.0).into()),
            Self::Keys(keys) => Recipients::parse(keys).map_err(|cause| {
                CommandError::configuration(format!("cannot encrypt the backup: {cause}"))
                    .hint("`age-keygen -y IDENTITY` prints the public key of an identity")
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
    pub fn parsed(&self) -> Result<KeyIdentity, CommandError> {
        match self {
            Self::Passphrase(passphrase) => Ok(KeyIdentity::of_passphrase(&passphrase.0)),
            Self::File(file) => identity_in(file, "--identity"),
        }
    }
}
