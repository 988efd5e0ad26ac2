//! What a backup is of, and what it contains. It is the first file of a backup.

use serde::{Deserialize, Serialize};

use kubexm_types::{Arch, ClusterIdentity, Digest, HostName, UtcTime};

/// The format of backups that this version writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 2;
/// The first format with a signature of the manifest.
pub(super) const SIGNED: u32 = 2;

/// What a backup is of, and what it contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The number of the format.
    pub format: u32,
    pub cluster: ClusterIdentity,
    /// When the snapshot was taken, in UTC.
    pub created: UtcTime,
    /// The version of kubexm that wrote the backup.
    pub kubexm: String,
    /// The lowest version of the API servers; that of the cluster file if no control plane states one.
    pub kubernetes: String,
    /// How Kubernetes runs: `kubeadm` or `systemd`.
    pub deployment: String,
    pub etcd: EtcdSnapshot,
    /// The hosts whose configuration the backup contains.
    pub hosts: Vec<HostName>,
    /// The control planes of the cluster file; `None` in backups of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_planes: Option<Vec<HostName>>,
    /// All other files, in their order.
    pub files: Vec<BackedUpFile>,
}

/// A snapshot of etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdSnapshot {
    /// How etcd runs: `kubeadm` or `systemd`.
    pub deployment: String,
    /// The version of the member that took the snapshot.
    pub version: String,
    /// The host of that member.
    pub member: HostName,
    /// Whether the members had a leader. Without one, the snapshot can lack the last writes.
    pub quorum: bool,
    /// All members that answered.
    pub members: Vec<EtcdMember>,
    /// etcd's own ID of the cluster, in hexadecimal digits.
    pub cluster_id: String,
    /// The revision of the snapshot.
    pub revision: u64,
    /// The hash by which etcdutl identifies the content.
    pub hash: u64,
    /// The number of keys at that revision: one for each object of Kubernetes, and a few of the API servers.
    pub keys: u64,
}

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMember {
    pub host: HostName,
    /// etcd's ID of the member, in hexadecimal digits.
    pub id: String,
    pub version: String,
    pub leader: bool,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackedUpFile {
    /// The path in the archive.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    pub digest: Digest,
}

/// The path of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";
/// The path of the snapshot.
pub const SNAPSHOT: &str = "etcd/snapshot.db";
/// The path of the cluster file.
pub(super) const CLUSTER_FILE: &str = "cluster.yaml";
/// The directory of the files of the state directory.
pub const STATE: &str = "state/";

/// The directory of programs.
pub(super) const PROGRAMS: &str = "programs/";

/// Returns the path of the program etcdutl for an architecture.
pub fn program(arch: Arch) -> String {
    format!("{PROGRAMS}etcdutl-{arch}")
}

/// Returns the path of the archive with the files of a host.
pub fn host_files(host: &HostName) -> String {
    format!("hosts/{host}.tar")
}

impl Manifest {
    /// Returns a file of the backup.
    pub fn file(&self, path: &str) -> Option<&BackedUpFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the size of the snapshot in bytes.
    pub fn snapshot_size(&self) -> u64 {
        self.file(SNAPSHOT).map_or(0, |file| file.size)
    }
}
