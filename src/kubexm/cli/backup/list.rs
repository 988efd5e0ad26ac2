//! `kubexm backup list`.

use std::path::PathBuf;

use clap::Args;

use super::size;
use crate::cli::output::outln;
use crate::cli::password::BackupIdentityArgs;
use crate::cli::{Failure, output};
use crate::report::Output;
use kubexm_commands::backup::{self, ListOptions, ListedBackup};

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm backup list /srv/backups
  kubexm backup list /srv/backups --cluster production --identity key.txt")]
pub struct List {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// List the backups of this cluster only
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    identity: BackupIdentityArgs,
}

/// Prints the backups of a directory, the newest first.
pub async fn run(arguments: &List, output: Output) -> Result<(), Failure> {
    let options = ListOptions {
        folder: arguments.directory.clone(),
        cluster: arguments.cluster.clone(),
        identity: arguments.identity.optional()?,
    };
    let list = backup::list(&options).await?;
    if output == Output::Json {
        return output::document("BackupList", &list);
    }
    for backup in &list.backups {
        outln!("{}", line(backup));
    }
    outln!("{} backups", list.backups.len());
    Ok(())
}

fn line(backup: &ListedBackup) -> String {
    let name = backup.file.path.file_name().unwrap_or_default();
    let about = match (&backup.manifest, &backup.problem) {
        (Some(manifest), _) => format!(
            "  Kubernetes {}, etcd {}, {} keys, revision {}",
            manifest.kubernetes, manifest.etcd.version, manifest.etcd.keys, manifest.etcd.revision
        ),
        (None, Some(problem)) => format!("  {problem}"),
        (None, None) => String::new(),
    };
    format!(
        "{}  {:>10}  {}{about}",
        backup.file.created,
        size(backup.file.size),
        name.display()
    )
}
