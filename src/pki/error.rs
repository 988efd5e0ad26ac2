//! Why a certificate cannot be created or used.

use kubexm_types::{Message, disk_failure};

/// Why a certificate cannot be created or used.
#[derive(Debug, thiserror::Error)]
#[error("{}", Message::from(self))]
pub enum PkiError {
    /// A file cannot be read or written.
    Io {
        /// `create`, `read`, `remove` or `write`.
        action: &'static str,
        path: String,
        source: std::io::Error,
    },
    /// The key of a CA is not there, and this command needs it.
    MissingKey {
        /// What the key is needed for, as in "issue the certificate registry".
        purpose: String,
        path: String,
    },
    /// The key of a CA is encrypted, and this command needs it.
    EncryptedKey {
        /// What the key is needed for.
        purpose: String,
        path: String,
    },
    /// Beside an encrypted secret is a file in clear text with another one.
    TwoKeys {
        /// The file in clear text.
        path: String,
    },
    /// A certificate or key is invalid.
    Invalid {
        /// The name of the file without its extension.
        name: String,
        reason: Message,
    },
}

impl From<&PkiError> for Message {
    fn from(error: &PkiError) -> Self {
        match error {
            PkiError::Io { action, path, source } => {
                Self::new(format!("cannot {action} {path}: {source}")).or_hint(disk_failure::hint(source))
            }
            PkiError::MissingKey { purpose, path } => Self::new(format!(
                "cannot {purpose}: {path} does not exist, but the certificate of this CA does"
            ))
            .hint("put the key back for this command: kubexm never creates a CA where one exists"),
            PkiError::EncryptedKey { purpose, path } => {
                Self::new(format!("cannot {purpose}: {path} is encrypted")).hint(
                    "pass what encrypted it: the identity file with --ca-identity, or the passphrase with --ca-passphrase-file",
                )
            }
            PkiError::TwoKeys { path } => {
                Self::new(format!("cannot use {path}: {path}.sealed has another key")).hint(
                    "an earlier kubexm, which does not know encrypted keys, may have created the file: move it to a safe place, and \
                     compare it with the key that hosts have",
                )
            }
            PkiError::Invalid { name, reason } => {
                reason.clone().within(format!("certificate or key {name}"))
            }
        }
    }
}

impl PkiError {
    /// Sets what the user can do about an invalid certificate or key.
    pub(crate) fn hint(self, hint: &str) -> Self {
        match self {
            Self::Invalid { name, reason } => Self::Invalid {
                name,
                reason: reason.hint(hint),
            },
            other => other,
        }
    }
}

pub(crate) fn invalid(name: &str, reason: impl std::fmt::Display) -> PkiError {
    PkiError::Invalid {
        name: name.to_owned(),
        reason: Message::new(reason.to_string()),
    }
}
