//! Passwords of signing keys.

use std::path::Path;

use super::Failure;
use kubexm_commands::sign::{Signer, load_key};

/// The environment variable with the password of a signing key.
const PASSWORD: &str = "KUBEXM_KEY_PASSWORD";

/// Reads a secret key. Its password comes from the environment, or kubexm asks for it.
pub fn signer(path: &Path) -> Result<Signer, Failure> {
    let password = || match std::env::var(PASSWORD) {
        Ok(password) => Ok(password),
        Err(_) => rpassword::prompt_password(format!("password of {}: ", path.display())).map_err(
            |error| format!("cannot ask for the password: {error}\n  hint: set {PASSWORD}"),
        ),
    };
    Ok(load_key(path, password)?)
}

/// Returns the password of a new key, from the environment or typed twice.
pub fn new_password() -> Result<String, Failure> {
    if let Ok(password) = std::env::var(PASSWORD) {
        return Ok(password);
    }
    let ask = |prompt: &str| {
        rpassword::prompt_password(prompt).map_err(|error| {
            Failure::configuration(format!(
                "cannot ask for a password: {error}\n  hint: set {PASSWORD}, or give --no-password"
            ))
        })
    };
    let password = ask("password of the new key: ")?;
    match password == ask("the same password again: ")? {
        true => Ok(password),
        false => Err(Failure::configuration("the two passwords differ")),
    }
}
