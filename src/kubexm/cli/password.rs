//! Passwords of signing keys and of hosts, and the passphrase for the keys of CAs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::timer::option_with_file;
use kubexm_commands::PasswordOption;
use kubexm_commands::backup::BackupIdentity;
use kubexm_commands::install::CaEncryption;
use kubexm_commands::sign::{Sequence, Signer, load_key};
use kubexm_types::{Secret, SecretError};

/// The environment variable with the password of a signing key.
const KEY_PASSWORD: &str = "KUBEXM_KEY_PASSWORD";
/// The environment variable with the passphrase for the keys of CAs.
const CA_PASSPHRASE: &str = "KUBEXM_CA_PASSPHRASE";
/// The environment variable with the password for SSH and sudo.
const HOST_PASSWORD: &str = "KUBEXM_HOST_PASSWORD";

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
                .map_err(|cause| format!("{cause}\nhint: {KEY_HINT}")),
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
                Failure::configuration(format!("{cause}\nhint: {KEY_HINT}, or pass --no-password"))
            })
        };
        let password = ask("password of the new key: ")?;
        match password == ask("the same password again: ")? {
            true => Ok(password),
            false => Err(Failure::configuration("the two passwords differ")),
        }
    }
}

/// Returns the failure of an option with the file of a secret. If the file is not readable, the user has most often named another one.
fn of_option(option: &'static str) -> impl Fn(SecretError) -> Failure {
    move |error| match error {
        SecretError::File { .. } => {
            Failure::configuration(format!("{error}\nhint: correct {option}"))
        }
        _ => Failure::configuration(error),
    }
}

const KEY_HINT: &str = "set KUBEXM_KEY_PASSWORD, or pass --password-file";

/// Where the password for SSH and sudo comes from.
#[derive(Debug, Args)]
pub struct HostPasswordArgs {
    /// Ask for the password for SSH and sudo
    ///
    /// It is for hosts without a password in the cluster file.
    #[arg(long, conflicts_with = "password_file")]
    ask_password: bool,
    /// A file with the password for SSH and sudo
    ///
    /// It is for hosts without a password in the cluster file. Only its owner may read the file. `/dev/fd/3`
    /// reads file descriptor 3. Without this option, the password comes from KUBEXM_HOST_PASSWORD.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl HostPasswordArgs {
    /// Returns the password, if the options or the environment contain one.
    pub fn password(&self) -> Result<Option<Secret>, Failure> {
        if self.ask_password {
            let password = ask("password for SSH and sudo: ").map_err(|cause| {
                Failure::configuration(format!(
                    "{cause}\nhint: set {HOST_PASSWORD}, or pass --password-file"
                ))
            })?;
            return Ok(Some(Secret(password)));
        }
        match &self.password_file {
            Some(path) => {
                let password = Secret::from_file(path).map_err(of_option("--password-file"))?;
                Ok(Some(password))
            }
            None => Ok(Secret::from_variable(HOST_PASSWORD).ok()),
        }
    }
}

impl HostPasswordArgs {
    /// Returns the option that gives the password.
    pub fn option(&self) -> PasswordOption {
        match &self.password_file {
            Some(file) => PasswordOption::File(file.clone()),
            None if self.ask_password => PasswordOption::Ask,
            None => PasswordOption::None,
        }
    }

    /// Returns the options with which a service gets the password.
    ///
    /// # Errors
    /// A service does not get it.
    pub fn unattended(&self) -> Result<Vec<String>, Failure> {
        let has_variable = Secret::from_variable(HOST_PASSWORD).is_ok();
        match &self.password_file {
            Some(file) => option_with_file("--password-file", file),
            None if self.ask_password || has_variable => Err(Failure::configuration(format!(
                "a run of a timer cannot ask for the password for SSH, and does not have {HOST_PASSWORD}\nhint: let kubexm log \
                 in with an SSH key that needs no passphrase, or pass --password-file"
            ))),
            None => Ok(Vec::new()),
        }
    }
}

/// Where the passphrase for the keys of CAs comes from.
#[derive(Debug, Args)]
pub struct CaPassphraseArgs {
    /// Encrypt the keys of CAs in the state directory with a passphrase, and ask for it
    ///
    /// It replaces an identity file. From then on a passphrase is required for an install that needs a key.
    #[arg(long, conflicts_with_all = ["ca_identity", "ca_passphrase_file"])]
    ask_ca_passphrase: bool,
    /// A file with the passphrase for the keys of CAs
    ///
    /// Only its owner may read the file. `/dev/fd/3` reads file descriptor 3. Without this option, the passphrase
    /// comes from KUBEXM_CA_PASSPHRASE, if this variable is set.
    #[arg(long, value_name = "FILE", conflicts_with = "ca_identity")]
    ca_passphrase_file: Option<PathBuf>,
}

impl CaPassphraseArgs {
    /// Returns what encrypts the keys of CAs: the identity file, or else a passphrase. `dry_run` is whether the command is a
    /// dry run without a comparison.
    pub fn encryption(
        &self,
        identity: Option<&Path>,
        dry_run: bool,
    ) -> Result<Option<CaEncryption>, Failure> {
        match identity {
            Some(file) => Ok(Some(CaEncryption::of_file(file.to_owned()))),
            // Such a dry run reads no key, so it does not ask for the passphrase.
            None if dry_run => Ok(None),
            None => Ok(self.passphrase(true)?.map(CaEncryption::Passphrase)),
        }
    }

    /// Returns what encrypts the keys of CAs in a command whose dry run compares hosts, and encrypts none.
    pub fn comparing_if_dry(
        &self,
        identity: Option<&Path>,
        dry_run: bool,
    ) -> Result<Option<CaEncryption>, Failure> {
        match dry_run {
            true => self.decryption(identity),
            false => self.encryption(identity, false),
        }
    }

    /// Returns what decrypts the keys of CAs in a command that encrypts none, as a comparison: the identity file, or else a
    /// passphrase. A mistyped passphrase loses no key, so kubexm asks for it once.
    pub fn decryption(&self, identity: Option<&Path>) -> Result<Option<CaEncryption>, Failure> {
        match identity {
            Some(file) => Ok(Some(CaEncryption::of_file(file.to_owned()))),
            None => Ok(self.passphrase(false)?.map(CaEncryption::Passphrase)),
        }
    }

    /// Returns the options with which a service opens the keys of CAs; none if no option does.
    ///
    /// # Errors
    /// A service does not get the passphrase.
    pub fn unattended(&self, identity: Option<&Path>) -> Result<Vec<String>, Failure> {
        if let Some(file) = identity {
            return option_with_file("--ca-identity", file);
        }
        let has_variable =
            Secret::from_variable(CA_PASSPHRASE).is_ok_and(|text| !text.0.is_empty());
        match &self.ca_passphrase_file {
            Some(file) => option_with_file("--ca-passphrase-file", file),
            None if self.ask_ca_passphrase || has_variable => Err(Failure::configuration(format!(
                "a run of a timer cannot ask for the passphrase, and does not have {CA_PASSPHRASE}\nhint: pass \
                 --ca-passphrase-file or --ca-identity"
            ))),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the passphrase, if the options or the environment contain one. `encrypts` is whether the command may encrypt
    /// keys with it.
    fn passphrase(&self, encrypts: bool) -> Result<Option<Secret>, Failure> {
        if self.ask_ca_passphrase {
            return Self::ask(encrypts).map(Some);
        }
        match &self.ca_passphrase_file {
            Some(path) => {
                let given = Secret::passphrase_from_file(path);
                Ok(Some(given.map_err(of_option("--ca-passphrase-file"))?))
            }
            None => {
                let given = Secret::from_variable(CA_PASSPHRASE).ok();
                Ok(given.filter(|passphrase| !passphrase.0.is_empty()))
            }
        }
    }

    /// Asks, and asks twice before keys are encrypted: keys that are encrypted with a mistyped passphrase are lost.
    fn ask(encrypts: bool) -> Result<Secret, Failure> {
        let ask = |prompt: &str| {
            ask(prompt).map_err(|cause| {
                Failure::configuration(format!(
                    "{cause}\nhint: set {CA_PASSPHRASE}, or pass --ca-passphrase-file"
                ))
            })
        };
        let passphrase = ask("passphrase for the keys of CAs: ")?;
        if passphrase.is_empty() {
            return Err(Failure::configuration("the passphrase is empty"));
        }
        match !encrypts || passphrase == ask("the same passphrase again: ")? {
            true => Ok(Secret(passphrase)),
            false => Err(Failure::configuration("the two passphrases differ")),
        }
    }
}

/// The environment variable with the passphrase of backups.
const BACKUP_PASSPHRASE: &str = "KUBEXM_BACKUP_PASSPHRASE";

/// Where the passphrase of a backup comes from.
#[derive(Debug, Args)]
pub struct BackupPassphraseArgs {
    /// Ask for the passphrase of the backup
    #[arg(long, conflicts_with = "passphrase_file")]
    ask_passphrase: bool,
    /// A file with the passphrase of the backup
    ///
    /// Only its owner may read the file. `/dev/fd/3` reads file descriptor 3. Without this option, the passphrase
    /// comes from KUBEXM_BACKUP_PASSPHRASE.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

impl BackupPassphraseArgs {
    fn given(&self) -> Result<Option<Secret>, Failure> {
        if let Some(path) = &self.passphrase_file {
            let given = Secret::passphrase_from_file(path);
            return Ok(Some(given.map_err(of_option("--passphrase-file"))?));
        }
        let given = Secret::from_variable(BACKUP_PASSPHRASE).ok();
        Ok(given.filter(|passphrase| !passphrase.0.is_empty()))
    }

    fn ask(prompt: &str) -> Result<Secret, Failure> {
        let answer = ask(prompt).map_err(|cause| {
            Failure::configuration(format!(
                "{cause}\nhint: set {BACKUP_PASSPHRASE}, or pass --passphrase-file"
            ))
        })?;
        match answer.is_empty() {
            true => Err(Failure::configuration("the passphrase is empty")),
            false => Ok(Secret(answer)),
        }
    }

    /// Returns the passphrase of a new backup. Asks twice: a backup with a mistyped passphrase is lost.
    pub fn new_passphrase(&self, dry_run: bool) -> Result<Secret, Failure> {
        if !self.ask_passphrase {
            return self.given()?.ok_or_else(|| {
                Failure::configuration(
                    "a backup contains all keys of the cluster, so it must be encrypted\nhint: pass --recipient KEY or \
                     --passphrase-file FILE, or set KUBEXM_BACKUP_PASSPHRASE",
                )
            });
        }
        if dry_run {
            // A dry run encrypts nothing.
            return Ok(Secret(String::new()));
        }
        let passphrase = Self::ask("passphrase of the backup: ")?;
        match passphrase.0 == Self::ask("the same passphrase again: ")?.0 {
            true => Ok(passphrase),
            false => Err(Failure::configuration("the two passphrases differ")),
        }
    }
}

/// Who reads a backup.
#[derive(Debug, Args)]
pub struct BackupIdentityArgs {
    /// The identity file of age for which the backup is encrypted
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ask_passphrase", "passphrase_file"])]
    identity: Option<PathBuf>,
    #[command(flatten)]
    passphrase: BackupPassphraseArgs,
}

impl BackupIdentityArgs {
    /// Returns the identity, if the options or the environment contain one.
    pub fn optional(&self) -> Result<Option<BackupIdentity>, Failure> {
        if let Some(file) = &self.identity {
            return Ok(Some(BackupIdentity::File(file.clone())));
        }
        let passphrase = match self.passphrase.ask_passphrase {
            true => Some(BackupPassphraseArgs::ask("passphrase of the backup: ")?),
            false => self.passphrase.given()?,
        };
        Ok(passphrase.map(BackupIdentity::Passphrase))
    }

    /// Returns the identity.
    pub fn required(&self) -> Result<BackupIdentity, Failure> {
        self.optional()?.ok_or_else(|| {
            Failure::configuration(
                "the backup is encrypted\nhint: pass --identity FILE or --passphrase-file FILE, or set \
                 KUBEXM_BACKUP_PASSPHRASE",
            )
        })
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

    use super::*;

    #[test]
    fn file_that_cannot_be_read_names_its_option() {
        let absent = Some(PathBuf::from("/nonexistent/p"));
        let host = HostPasswordArgs {
            ask_password: false,
            password_file: absent.clone(),
        };
        let key = KeyPasswordArgs {
            password_file: absent.clone(),
        };
        let ca = CaPassphraseArgs {
            ask_ca_passphrase: false,
            ca_passphrase_file: absent.clone(),
        };
        let backup = BackupPassphraseArgs {
            ask_passphrase: false,
            passphrase_file: absent,
        };
        for (refused, what, option) in [
            (host.password().unwrap_err(), "password", "--password-file"),
            (key.given().unwrap_err(), "password", "--password-file"),
            (
                ca.passphrase(false).unwrap_err(),
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
