//! `kubexm backup list`.

use std::path::PathBuf;

use clap::Args;

use super::size::size;
use crate::cli::output::outln;
use crate::cli::password::BackupIdentityArgs;
use crate::cli::{Failure, output};
use crate::report::Output;
use kubexm_safekeeping::backup::{self, ListOptions, ListedBackup};

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
    let state = if backup.file.is_incomplete {
        "  incomplete"
    } else {
        ""
    };
    format!(
        "{}  {:>10}  {}{state}{about}",
        backup.file.created,
        size(backup.file.size),
        name.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_safekeeping::backup::StoredBackup;

    #[test]
    fn incomplete_backup_is_listed_as_such() {
        let name = "a-20260131T120000Z-0b7c4c4e.incomplete.tar.zst.age";
        let mut backup = ListedBackup {
            file: StoredBackup {
                path: format!("/srv/backups/{name}").into(),
                cluster: "a".to_owned(),
                cluster_id: Some("0b7c4c4e".to_owned()),
                created: kubexm_types::UtcTime::parse("2026-01-31T12:00:00Z").unwrap(),
                size: 2048,
                is_incomplete: true,
            },
            manifest: None,
            problem: None,
        };
        let expected = format!("2026-01-31T12:00:00Z       2 KiB  {name}  incomplete");
        assert_eq!(line(&backup), expected);
        backup.file.is_incomplete = false;
        assert!(!line(&backup).ends_with("incomplete"));
    }
}
