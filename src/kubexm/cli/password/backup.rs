//! The passphrase or the identity of a backup.

use std::path::PathBuf;

use clap::Args;

use super::{ask, of_option};
use crate::cli::Failure;
use kubexm_safekeeping::backup::BackupIdentity;
use kubexm_types::Secret;

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
            Failure::configuration(cause).hint(format!(
                "set {BACKUP_PASSPHRASE}, or pass --passphrase-file"
            ))
        })?;
        if answer.is_empty() {
            Err(Failure::configuration("the passphrase is empty"))
        } else {
            Ok(Secret(answer))
        }
    }

    /// Returns the passphrase of a new backup. Asks twice: a backup with a mistyped passphrase is lost.
    pub fn new_passphrase(&self, dry_run: bool) -> Result<Secret, Failure> {
        if !self.ask_passphrase {
            return self.given()?.ok_or_else(|| {
                Failure::configuration(
                    "a backup contains all keys of the cluster, so it must be encrypted",
                )
                .hint(
                    "pass --recipient KEY or \
                     --passphrase-file FILE, or set KUBEXM_BACKUP_PASSPHRASE",
                )
            });
        }
        if dry_run {
            // A dry run encrypts nothing.
            return Ok(Secret(String::new()));
        }
        let passphrase = Self::ask("passphrase of the backup: ")?;
        if passphrase.0 == Self::ask("the same passphrase again: ")?.0 {
            Ok(passphrase)
        } else {
            Err(Failure::configuration("the two passphrases differ"))
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
        let passphrase = if self.passphrase.ask_passphrase {
            Some(BackupPassphraseArgs::ask("passphrase of the backup: ")?)
        } else {
            self.passphrase.given()?
        };
        Ok(passphrase.map(BackupIdentity::Passphrase))
    }

    /// Returns the identity.
    pub fn required(&self) -> Result<BackupIdentity, Failure> {
        self.optional()?.ok_or_else(|| {
            Failure::configuration("the backup is encrypted").hint(
                "pass --identity FILE or --passphrase-file FILE, or set \
                 KUBEXM_BACKUP_PASSPHRASE",
            )
        })
    }
}
