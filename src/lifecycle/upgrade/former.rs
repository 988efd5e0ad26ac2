//! What an upgrade saves before each hop, so that the cluster can go back: a snapshot of etcd, and the files that describe the
//! programs of control planes and members. The bundle of the former version has the program that restores the snapshot.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use kubexm_config::Cluster;
use kubexm_etcd::{Member, Source};
use kubexm_safekeeping::archive::Archive;
use kubexm_safekeeping::backup::collect::{self, Collected};
use kubexm_safekeeping::backup::create::{self, Taken};
use kubexm_safekeeping::backup::{EtcdSnapshot, manifest};
use kubexm_session::sealed::Seal;
use kubexm_session::session::Hosts;
use kubexm_session::{CommandError, FileError, private_directory};
use kubexm_types::event::Events;
use kubexm_types::{Digest, HostName, UtcTime, Version, write_atomic};

/// The file that states what an archive has. It is the last one that is written.
const FILE: &str = "before-upgrade.json";
/// The snapshot of etcd.
const SNAPSHOT: &str = "etcd-snapshot.db";
const OWNER_ONLY: u32 = 0o600;

/// What an archive of an upgrade has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Former {
    /// When the snapshot was taken, in UTC.
    pub(super) created: UtcTime,
    /// The version of Kubernetes at that time.
    pub(super) kubernetes: String,
    pub(super) etcd: EtcdSnapshot,
    /// The digest of the snapshot.
    pub(super) snapshot: Digest,
}

impl Former {
    /// Returns what an archive has; `None` if it has no snapshot of kubexm.
    ///
    /// # Errors
    /// The file cannot be read, or it has another form.
    pub(super) fn load(archive: &Path) -> Result<Option<Self>, CommandError> {
        let path = archive.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text =
            std::fs::read_to_string(&path).map_err(|error| FileError::io("read", &path, &error))?;
        let found =
            serde_json::from_str(&text).map_err(|error| FileError::new("read", &path, error))?;
        Ok(Some(found))
    }
}

/// Returns the snapshot of an archive.
pub(super) fn snapshot(archive: &Path) -> PathBuf {
    archive.join(SNAPSHOT)
}

/// Returns the archive with the files of a host, in the archive of an upgrade.
pub(super) fn files(archive: &Path, host: &HostName) -> PathBuf {
    archive.join(manifest::host_files(host))
}

/// Saves what a rollback of a hop needs. Returns the file of the snapshot; `None` if kubexm does not run etcd.
///
/// # Errors
/// No member provides a snapshot, a host was lost, or this machine cannot store the files.
pub(super) async fn save(
    archive: &Archive,
    (cluster, hosts): (&Cluster, &Hosts),
    from: &Version,
    events: &Events,
) -> Result<Option<PathBuf>, CommandError> {
    let members = Member::on(cluster, hosts);
    if members.is_empty() {
        return Ok(None);
    }
    let folder = archive.folder();
    let taken = create::take(
        &members,
        kubexm_safekeeping::backup::etcd_deployment(cluster)?,
        events,
    )
    .await?;
    let path = snapshot(folder);
    let copied = copy(&taken, &path, archive.seal()).await;
    taken.member.remove().await;
    let stored = copied?;
    for file in collect::of_hosts(cluster, hosts, events).await? {
        let path = place(folder, &file)?;
        let written = archive.seal().write(&path, &file.content);
        written.map_err(|error| FileError::io("write", &path, &error))?;
    }
    let former = Former {
        created: UtcTime::now().whole_seconds(),
        kubernetes: from.to_string(),
        etcd: taken.etcd,
        snapshot: taken.file.digest,
    };
    let text = serde_json::to_vec_pretty(&former).map_err(CommandError::defect)?;
    let file = folder.join(FILE);
    write_atomic(&file, &text, OWNER_ONLY)
        .map_err(|error| FileError::io("write", &file, &error))?;
    Ok(Some(stored))
}

async fn copy(taken: &Taken<'_>, path: &Path, seal: &Seal) -> Result<PathBuf, CommandError> {
    let unwritable = |error| FileError::io("write", path, &error);
    let target = seal.create(path).map_err(unwritable)?;
    let copying = taken.member.copy(Source::Snapshot, &taken.file, target);
    let target = copying
        .await
        .map_err(|failure| create::failed(taken.member, failure, path))?;
    Ok(target.commit().map_err(unwritable)?)
}

/// Returns the path of a file below the archive, whose directory exists then.
fn place(archive: &Path, file: &Collected) -> Result<PathBuf, CommandError> {
    let path = archive.join(&file.path);
    if let Some(folder) = path.parent() {
        private_directory::create(folder, "create the archive")?;
    }
    Ok(path)
}
