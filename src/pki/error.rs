//! Why a certificate cannot be created or used.

/// Why a certificate cannot be created or used.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error(
        "cannot {action} {path}: {source}{}",
        kubexm_types::disk_failure::hint(source)
    )]
    Io {
        /// `create`, `read`, `remove` or `write`.
        action: &'static str,
        path: String,
        source: std::io::Error,
    },
    /// The key of a CA is not there, and this command needs it.
    #[error(
        "cannot {purpose}: {path} does not exist, but the certificate of this CA does\n\
         hint: put the key back for this command: kubexm never creates a CA where one exists"
    )]
    MissingKey {
        /// What the key is needed for, as in "issue the certificate registry".
        purpose: String,
        path: String,
    },
    /// The key of a CA is encrypted, and this command needs it.
    #[error(
        "cannot {purpose}: {path} is encrypted\n\
         hint: pass what encrypted it: the identity file with --ca-identity, or the passphrase with --ca-passphrase-file"
    )]
    EncryptedKey {
        /// What the key is needed for.
        purpose: String,
        path: String,
    },
    /// A certificate or key is invalid.
    #[error("certificate or key {name}: {reason}")]
    Invalid {
        /// The name of the file without its extension.
        name: String,
        reason: String,
    },
}

pub(crate) fn invalid(name: &str, reason: impl std::fmt::Display) -> PkiError {
    PkiError::Invalid {
        name: name.to_owned(),
        reason: reason.to_string(),
    }
}
