//! Passwords of signing keys and of hosts, and passphrases for the keys of CAs and for backups.

mod backup;
mod ca;
mod host;
mod key;

use std::fs::File;
use std::io;

use super::Failure;
use kubexm_types::{Message, SecretError};

pub use backup::{BackupIdentityArgs, BackupPassphraseArgs};
pub use ca::CaPassphraseArgs;
pub use host::HostPasswordArgs;
pub use key::KeyPasswordArgs;

/// Returns the failure of an option with the file of a secret. If the file is not readable, the user has most often named another one.
fn of_option(option: &'static str) -> impl Fn(SecretError) -> Failure {
    move |error| {
        let failure = Failure::configuration(Message::from(&error));
        match error {
            SecretError::File { .. } => failure.hint(format!("correct {option}")),
            _ => failure,
        }
    }
}

/// Asks on the terminal. The answer is not shown.
fn ask(prompt: &str) -> Result<String, String> {
    rpassword::prompt_password(prompt)
        .map_err(|error| format!("cannot prompt for the password: {}", cause(&error)))
}

/// Returns why a prompt failed. Without a terminal, the system's error names a device that users do not know.
fn cause(error: &io::Error) -> String {
    match File::open("/dev/tty") {
        Ok(_) => error.to_string(),
        Err(_) => "there is no terminal".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::{Arg, Args, Command};

    use super::*;

    /// Returns what a command line with this option and a file that does not exist means.
    fn with_absent_file<T: Args>(option: &str) -> T {
        // An option of CAs conflicts with this one of other arguments.
        let other = Arg::new("ca_identity").long("ca-identity");
        let command = T::augment_args(Command::new("kubexm").arg(other));
        let matches = command.get_matches_from(["kubexm", option, "/nonexistent/p"]);
        T::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn file_that_cannot_be_read_names_its_option() {
        let host: HostPasswordArgs = with_absent_file("--password-file");
        let key: KeyPasswordArgs = with_absent_file("--password-file");
        let ca: CaPassphraseArgs = with_absent_file("--ca-passphrase-file");
        let backup: BackupPassphraseArgs = with_absent_file("--passphrase-file");
        for (refused, what, option) in [
            (host.password().unwrap_err(), "password", "--password-file"),
            (
                key.new_password().unwrap_err(),
                "password",
                "--password-file",
            ),
            (
                ca.decryption(None).unwrap_err(),
                "passphrase",
                "--ca-passphrase-file",
            ),
            (
                backup.new_passphrase(false).unwrap_err(),
                "passphrase",
                "--passphrase-file",
            ),
        ] {
            let expected = format!(
                "cannot read the {what} in /nonexistent/p: No such file or directory (os error 2)\nhint: correct {option}"
            );
            assert_eq!(refused.to_string(), expected);
        }
    }
}
