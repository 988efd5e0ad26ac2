//! The passphrase for the keys of CAs.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{ask, of_option};
use crate::cli::Failure;
use crate::cli::option_of_service::option_with_file;
use kubexm_lifecycle::install::CaEncryption;
use kubexm_types::Secret;

/// The environment variable with the passphrase for the keys of CAs.
const CA_PASSPHRASE: &str = "KUBEXM_CA_PASSPHRASE";

/// Where the passphrase for the keys of CAs comes from.
#[derive(Debug, Args)]
pub struct CaPassphraseArgs {
    /// Encrypt the secrets of the state directory with a passphrase, and ask for it
    ///
    /// It replaces an identity file. From then on commands that use a secret require the passphrase.
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
        if dry_run {
            self.decryption(identity)
        } else {
            self.encryption(identity, false)
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
                "a run of a timer cannot ask for the passphrase, and does not have {CA_PASSPHRASE}"
            ))
            .hint(
                "pass \
                 --ca-passphrase-file or --ca-identity",
            )),
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
                Failure::configuration(cause)
                    .hint(format!("set {CA_PASSPHRASE}, or pass --ca-passphrase-file"))
            })
        };
        let passphrase = ask("passphrase for the keys of CAs: ")?;
        if passphrase.is_empty() {
            return Err(Failure::configuration("the passphrase is empty"));
        }
        if !encrypts || passphrase == ask("the same passphrase again: ")? {
            Ok(Secret(passphrase))
        } else {
            Err(Failure::configuration("the two passphrases differ"))
        }
    }
}
