//! The files of a backup besides the snapshot: configuration of hosts, and the state directory.

use std::io;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;

use super::manifest::{BackedUpFile, CLUSTER_FILE, STATE, host_files};
use crate::session::Hosts;
use crate::{CommandError, FileError};
use kubexm_config::Cluster;
use kubexm_host::{Command, Limit};
use kubexm_scripts::steps::READ_FILES;
use kubexm_types::event::Events;
use kubexm_types::{Digest, HostName, write_atomic};

/// The files on hosts that describe the cluster. A path of a program that a host does not have does not exist.
const PATHS: [&str; 15] = [
    "/etc/kubernetes",
    "/etc/kubexm",
    "/etc/haproxy",
    "/etc/keepalived",
    "/etc/nginx/nginx.conf",
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
    "/etc/systemd/system/etcd.service",
    "/etc/systemd/system/kube*.service",
    "/etc/systemd/system/kube*.service.d",
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/instance-config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/lib/kubexm/cluster",
    "/var/lib/kubexm/receipt.jsonl",
];
/// Entries of the state directory that a backup does not contain: other backups, logs, and what belongs to a running command.
const NOT_KEPT: [&str; 6] = [
    "archive",
    "backups",
    "logs",
    "lock",
    super::record::FILE,
    crate::registry::MOVE_RECORD,
];
/// The largest file of the state directory that a backup contains, in bytes.
const LARGEST: u64 = 64 << 20;

/// A file of a backup that is in memory. It may be secret.
pub(crate) struct Collected {
    pub(crate) path: String,
    pub(crate) content: Vec<u8>,
}

impl Collected {
    /// Returns what the manifest states about the file.
    pub(super) fn entry(&self) -> BackedUpFile {
        BackedUpFile {
            path: self.path.clone(),
            size: self.content.len() as u64,
            digest: Digest::of(&self.content),
        }
    }
}

/// Returns the hosts whose configuration a backup contains: all but workers, which an install creates again.
pub(crate) fn kept_hosts(cluster: &Cluster) -> Vec<&HostName> {
    let roles = &cluster.roles;
    let others = [&roles.etcd, &roles.load_balancer, &roles.registry];
    let mut kept: Vec<&HostName> = roles.control_plane.iter().collect();
    for name in others.into_iter().flatten() {
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    kept
}

/// Reads the configuration of hosts. Reports hosts that cannot be reached.
///
/// # Errors
/// A host was lost, or refuses to provide its files.
pub(crate) async fn of_hosts(
    cluster: &Cluster,
    hosts: &Hosts,
    events: &Events,
) -> Result<Vec<Collected>, CommandError> {
    let reads = kept_hosts(cluster).into_iter().map(async |name| {
        let Some(host) = hosts.get(name) else {
            events.warn(format!(
                "{name}: cannot be reached; the backup has nothing of its configuration"
            ));
            return Ok(None);
        };
        let command = Command::from_script(READ_FILES, PATHS)
            .describe("read the configuration of the host")
            .limit(Limit::DEFAULT)
            .secret_output();
        let output = host.run(command).await?;
        if !output.success() {
            let complaint = output.complaint();
            return Err(CommandError::Configuration(format!(
                "{name}: cannot read the configuration of the host: {complaint}"
            )));
        }
        Ok(Some(Collected {
            path: host_files(name),
            content: output.stdout,
        }))
    });
    let read: Result<Vec<_>, CommandError> = join_all(reads).await.into_iter().collect();
    Ok(read?.into_iter().flatten().collect())
}

/// Reads the cluster file and the state directory.
///
/// # Errors
/// A file cannot be read.
pub(super) fn of_controller(cluster: &Path, state: &Path) -> Result<Vec<Collected>, CommandError> {
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| FileError::io("back up", path, &error));
    let mut files = vec![Collected {
        path: CLUSTER_FILE.to_owned(),
        content: read(cluster)?,
    }];
    let mut paths = Vec::new();
    list(state, Path::new(""), &mut paths)
        .map_err(|error| FileError::io("back up", state, &error))?;
    paths.sort();
    for path in paths {
        files.push(Collected {
            path: format!("{STATE}{}", path.display()),
            content: read(&state.join(&path))?,
        });
    }
    Ok(files)
}

fn list(state: &Path, below: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(state.join(below))? {
        let entry = entry?;
        let name = entry.file_name();
        let is_kept = !below.as_os_str().is_empty()
            || !NOT_KEPT.iter().any(|other| name == *other)
                && !name.to_string_lossy().starts_with('.');
        let path = below.join(&name);
        let about = entry.metadata()?;
        match about.file_type() {
            _ if !is_kept => {}
            kind if kind.is_dir() => list(state, &path, found)?,
            kind if kind.is_file() && about.len() <= LARGEST => found.push(path),
            _ => {}
        }
    }
    Ok(())
}

/// Writes a file of the state directory of a backup to a directory.
///
/// # Errors
/// The path leads out of the directory, or the file system refuses the file.
pub(super) fn put_back(state: &Path, path: &str, content: &[u8]) -> io::Result<()> {
    let parts = Path::new(path).components();
    let mut is_normal = parts.map(|part| matches!(part, std::path::Component::Normal(_)));
    if !is_normal.all(|normal| normal) {
        return Err(io::Error::other(format!(
            "'{path}' is not a path of a state directory"
        )));
    }
    let target = state.join(path);
    if let Some(folder) = target.parent() {
        crate::private_directory::create(folder, "create the state directory")
            .map_err(|error| io::Error::other(error.to_string()))?;
    }
    write_atomic(&target, content, 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_kept_without_backups_logs_and_locks() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cluster = folder.path().join("cluster.yaml");
        std::fs::write(&cluster, "kind: Cluster").unwrap();
        for path in [
            "pki/kubernetes/ca.key",
            "cluster.json",
            "backups/old",
            "logs/node1.log",
            "lock",
            "archive/20260101/pki/x",
        ] {
            let path = state.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let files = of_controller(&cluster, state.path()).unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "cluster.yaml",
                "state/cluster.json",
                "state/pki/kubernetes/ca.key"
            ]
        );
        let other = tempfile::tempdir().unwrap();
        put_back(other.path(), "pki/kubernetes/ca.key", b"x").unwrap();
        assert!(other.path().join("pki/kubernetes/ca.key").exists());
        for wrong in ["../x", "/x", "a/../../x"] {
            put_back(other.path(), wrong, b"x").unwrap_err();
        }
    }
}
