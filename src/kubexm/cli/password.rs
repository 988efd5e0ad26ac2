//! Passwords of signing keys.

use std::fs::File;
use std::io;
use std::path::Path;

use super::Failure;
use kubexm_commands::sign::{Sequence, Signer, load_key};

/// The environment variable with the password of a signing key.
const PASSWORD: &str = "KUBEXM_KEY_PASSWORD";

/// Reads a secret key for signatures with this sequence number. Its password comes from the environment, or
/// kubexm asks for it.
pub fn signer(path: &Path, sequence: Option<Sequence>) -> Result<Signer, Failure> {
    let password = || match std::env::var(PASSWORD) {
        Ok(password) => Ok(password),
        Err(_) => {
            let prompt = format!("password of {}: ", path.display());
            rpassword::prompt_password(prompt).map_err(|error| {
                let cause = cause(&error);
                format!("cannot prompt for the password: {cause}\nhint: set {PASSWORD}")
            })
        }
    };
    Ok(load_key(path, sequence, password)?)
}

/// Returns the password of a new key, from the environment or typed twice.
pub fn new_password() -> Result<String, Failure> {
    if let Ok(password) = std::env::var(PASSWORD) {
        return Ok(password);
    }
    let ask = |prompt: &str| {
        rpassword::prompt_password(prompt).map_err(|error| {
            Failure::configuration(format!(
                "cannot prompt for a password: {}\nhint: set {PASSWORD}, or pass --no-password",
                cause(&error)
            ))
        })
    };
    let password = ask("password of the new key: ")?;
    match password == ask("the same password again: ")? {
        true => Ok(password),
        false => Err(Failure::configuration("the two passwords differ")),
    }
}

/// Returns why a prompt failed. Without a terminal, the system's error names a device that users do not know.
fn cause(error: &io::Error) -> String {
    match File::open("/dev/tty") {
        Ok(_) => error.to_string(),
        Err(_) => "there is no terminal".to_owned(),
    }
}
