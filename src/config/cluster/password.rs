//! Where a password comes from.

use std::path::PathBuf;

use kubexm_types::{Secret, SecretError};

/// The source of a password. It is read when it is needed, so that a cluster file can be checked without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordSource {
    /// The cluster file contains it.
    Text(Secret),
    /// A file on this machine with one line. `/dev/fd/3` is file descriptor 3.
    File(PathBuf),
    /// An environment variable of kubexm.
    Variable(String),
}

impl PasswordSource {
    /// Reads the password.
    ///
    /// # Errors
    /// The file cannot be read, or other users can read it, or the variable is not set.
    pub fn read(&self) -> Result<Secret, SecretError> {
        match self {
            Self::Text(secret) => Ok(secret.clone()),
            Self::File(path) => Secret::from_file(path),
            Self::Variable(name) => Secret::from_variable(name),
        }
    }
}
