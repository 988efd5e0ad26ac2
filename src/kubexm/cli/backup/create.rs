//! `kubexm backup create`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::size::size;
use crate::cli::connection::ConnectionArgs;
use crate::cli::output::outln;
use crate::cli::password::BackupPassphraseArgs;
use crate::cli::{Failure, interrupt};
use crate::report::Output;
use kubexm_safekeeping::backup::{self, BackupRecipients, CreateOptions};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm backup create -f cluster.yaml -o /srv/backups --recipient age1…
  kubexm backup create -f cluster.yaml --passphrase-file phrase --keep 14
  kubexm backup create -f c.yaml --recipient age1… --keep 14 --dry-run")]
pub struct Create {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// The directory of the backup
    ///
    /// The default is `backups` in the state directory. The name of the file consists of the name of the
    /// cluster, the time, and the first 8 digits of the cluster ID. A backup that is not complete ends with
    /// `.incomplete.tar.zst.age`.
    #[arg(short = 'o', long = "output-dir", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Encrypt for the owner of this public key of age; repeatable
    ///
    /// This machine cannot read the backup then. `age-keygen` creates an identity and prints its public key.
    #[arg(long = "recipient", value_name = "KEY", conflicts_with_all = ["ask_passphrase", "passphrase_file"])]
    recipients: Vec<String>,
    #[command(flatten)]
    passphrase: BackupPassphraseArgs,
    /// Remove the oldest backups of the cluster in the directory, except for this number
    ///
    /// Only backups with the ID of the cluster count and go. A backup that is not complete removes none. A complete one also
    /// removes older ones that are not complete, except for the same number.
    #[arg(long, value_name = "N")]
    keep: Option<NonZeroUsize>,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Creates a backup.
pub async fn run(arguments: &Create, output: Output, events: &Events) -> Result<(), Failure> {
    let passphrase = &arguments.passphrase;
    let recipients = if !arguments.recipients.is_empty() {
        BackupRecipients::Keys(arguments.recipients.clone())
    } else {
        BackupRecipients::Passphrase(passphrase.new_passphrase(arguments.dry_run)?)
    };
    let options = CreateOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        output: arguments.directory.clone(),
        recipients,
        keep: arguments.keep,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    if arguments.dry_run {
        return Ok(backup::create_dry_run(&options, events, &stop).await?);
    }
    let report = backup::create(&options, events, &stop).await?;
    if output != Output::Json {
        let etcd = &report.manifest.etcd;
        outln!(
            "{}: {}, with {} keys of etcd at revision {} from {}",
            report.path.display(),
            size(report.size),
            etcd.keys,
            etcd.revision,
            etcd.member
        );
        for removed in &report.removed {
            outln!("removed {}", removed.display());
        }
    } else {
        events.note(format!("the backup is {}", report.path.display()));
    }
    Ok(())
}
