//! `kubexm backup verify`.

use std::path::PathBuf;

use clap::Args;

use super::size::size;
use crate::cli::output::outln;
use crate::cli::password::BackupIdentityArgs;
use crate::cli::{Failure, interrupt, output};
use crate::report::Output;
use kubexm_safekeeping::backup::{self, Sandbox, VerifyOptions};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm backup verify BACKUP --identity key.txt --trust backup-signing.pub
  kubexm backup verify BACKUP --identity key.txt
  kubexm backup verify BACKUP --passphrase-file phrase --output json")]
pub struct Verify {
    /// The backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    #[command(flatten)]
    identity: BackupIdentityArgs,
    /// Fail unless a run with the state directory of this public key, backup-signing.pub, made the backup
    ///
    /// Without a key, kubexm does not try a restore: etcdutl of an unknown author does not run on this machine.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Run etcdutl of the backup with all rights of this user, without isolation
    #[arg(long)]
    no_sandbox: bool,
}

/// Verifies a backup.
pub async fn run(arguments: &Verify, output: Output, events: &Events) -> Result<(), Failure> {
    backup::check_file(&arguments.backup)?;
    let options = VerifyOptions {
        backup: arguments.backup.clone(),
        identity: arguments.identity.required()?,
        trust: arguments.trust.clone(),
        sandbox: if arguments.no_sandbox {
            Sandbox::Off
        } else {
            Sandbox::default()
        },
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let report = backup::verify(&options, &stop).await?;
    if output == Output::Json {
        return output::document("BackupVerification", &report);
    }
    let manifest = &report.manifest;
    let etcd = &manifest.etcd;
    outln!(
        "{}: {}, {}",
        report.backup.display(),
        manifest.cluster,
        manifest.created
    );
    outln!(
        "  Kubernetes {} ({}), etcd {} ({})",
        manifest.kubernetes,
        manifest.deployment,
        etcd.version,
        etcd.deployment
    );
    outln!(
        "  snapshot of {}: {}, {} keys, revision {}, hash {:x}",
        etcd.member,
        size(manifest.snapshot_size()),
        etcd.keys,
        etcd.revision,
        etcd.hash
    );
    outln!(
        "  {} files have the digests of the manifest",
        manifest.files.len()
    );
    match &arguments.trust {
        Some(key) => outln!("  origin: {} verifies its signature", key.display()),
        None => outln!(
            "  origin: not verified; pass backup-signing.pub of the state directory with --trust"
        ),
    }
    match &report.trial {
        Some(trial) => outln!(
            "  trial restore: the data ends at revision {}",
            trial.revision
        ),
        None if report.is_origin_verified => {
            outln!("  no trial restore: the backup has no etcdutl for this machine");
        }
        None => outln!(
            "  no trial restore: etcdutl of a backup runs only if --trust verifies its origin"
        ),
    }
    Ok(())
}
