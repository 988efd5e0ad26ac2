//! The password of a signing key.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{ask, of_option};
use crate::cli::Failure;
use kubexm_bundling::sign::{Sequence, Signer, load_key};
use kubexm_types::{Message, Secret};

/// The environment variable with the password of a signing key.
const KEY_PASSWORD: &str = "KUBEXM_KEY_PASSWORD";
const KEY_HINT: &str = "set KUBEXM_KEY_PASSWORD, or pass --password-file";

/// Where the password of a signing key comes from.
#[derive(Debug, Clone, Args)]
pub struct KeyPasswordArgs {
    /// A file with the password of the key
    ///
    /// Only its owner may read the file. `/dev/fd/3` reads file descriptor 3. Without this option, the password
    /// comes from KUBEXM_KEY_PASSWORD, or kubexm asks for it.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl KeyPasswordArgs {
    /// Returns the password if a file or the environment contains it.
    fn given(&self) -> Result<Option<String>, Failure> {
        if let Some(path) = &self.password_file {
            let secret = Secret::from_file(path).map_err(of_option("--password-file"))?;
            return Ok(Some(secret.0));
        }
        Ok(std::env::var(KEY_PASSWORD).ok())
    }

    /// Reads a secret key for signatures with this sequence number. Its password comes from a file or the environment, or
    /// kubexm asks for it.
    pub fn signer(&self, path: &Path, sequence: Option<Sequence>) -> Result<Signer, Failure> {
        let given = self.given()?;
        let password = || match given {
            Some(password) => Ok(password),
            None => ask(&format!("password of {}: ", path.display()))
                .map_err(|cause| Message::new(cause).hint(KEY_HINT)),
        };
        Ok(load_key(path, sequence, password)?)
    }

    /// Returns the password of a new key, from a file, the environment, or typed twice.
    pub fn new_password(&self) -> Result<String, Failure> {
        if let Some(password) = self.given()? {
            return Ok(password);
        }
        let ask = |prompt: &str| {
            ask(prompt).map_err(|cause| {
                Failure::configuration(cause).hint(format!("{KEY_HINT}, or pass --no-password"))
            })
        };
        let password = ask("password of the new key: ")?;
        if password == ask("the same password again: ")? {
            Ok(password)
        } else {
            Err(Failure::configuration("the two passwords differ"))
        }
    }
}
