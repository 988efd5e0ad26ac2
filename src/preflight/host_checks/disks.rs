//! File systems: their options, and what is in the directory of etcd.

use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_host::Answers;
use kubexm_types::{FindingKind, HostName};

use crate::disk_space::{KUBELET, member_directory};

use super::check::{Asked, HostCheck, Problem, When};
use super::mounts::directories;

pub(super) const MOUNT_OPTIONS: HostCheck = HostCheck {
    kind: FindingKind::MountOptions,
    when: When::BeforeInstall,
    read: "options of the file systems of programs",
    find: options,
};

pub(super) const KINDS: HostCheck = HostCheck {
    kind: FindingKind::FileSystems,
    when: When::BeforeInstall,
    read: "types of the file systems of data directories",
    find: kinds,
};

pub(super) const LINKS: HostCheck = HostCheck {
    kind: FindingKind::FileSystems,
    when: When::BeforeInstall,
    read: "symbolic links to directories of the cluster",
    find: links,
};

pub(super) const ETCD_DATA: HostCheck = HostCheck {
    kind: FindingKind::EtcdData,
    when: When::BeforeInstall,
    read: "files in the data directory of etcd",
    find: etcd_data,
};

/// The file system of a directory of the cluster, with what its options prevent.
pub struct Mount<'a> {
    pub path: &'a str,
    /// The path, the options, and what the host printed besides them.
    pub line: &'a str,
    pub is_read_only: bool,
    /// What does not work because programs below the path cannot start; `None` if they can, or if none has to.
    pub lost: Option<&'static str>,
    /// Whether it is lost for sure.
    pub is_certain: bool,
    /// The type of the file system, and the directory at which it is mounted; empty if the host did not print them.
    pub(super) kind: &'a str,
    pub(super) point: &'a str,
}

impl<'a> Mount<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ');
        let (path, options) = (words.next()?, words.next()?);
        // In fstab, the last option counts, and two options include another one (<https://man7.org/linux/man-pages/man8/mount.8.html>).
        let (mut is_read_only, mut has_programs) = (false, true);
        for option in options.split(',') {
            match option {
                "ro" | "rw" => is_read_only = option == "ro",
                "noexec" | "user" | "users" => has_programs = false,
                "exec" => has_programs = true,
                _ => {}
            }
        }
        Some(Self {
            path,
            line,
            is_read_only,
            lost: needs_programs(path).filter(|_| !has_programs),
            is_certain: path != KUBELET,
            kind: words.next().unwrap_or_default(),
            point: words.next().unwrap_or_default(),
        })
    }
}

/// Returns the file systems of the directories of a cluster.
pub fn mounts(answers: &Answers) -> impl Iterator<Item = Mount<'_>> {
    let lines = answers.all("mount").iter();
    lines.filter_map(|line| Mount::parse(line))
}

/// Returns whether a host has a directory of the cluster.
pub(super) fn has(asked: &Asked<'_>, path: &str) -> bool {
    let all = directories(asked.cluster, asked.host);
    let of_nodes = ["/var/lib/cni", "/var/log/pods", "/opt/cni/bin"];
    path == PROGRAMS
        || all.contains(&path)
        || asked.cluster.is_node(asked.host) && of_nodes.contains(&path)
}

/// The directory of the programs that kubexm installs on every host.
const PROGRAMS: &str = "/usr/local/bin";

/// Returns what does not work if programs below a path cannot start; `None` if none has to. The programs of containers are on an
/// overlay, whose own options count, and not those of the file system below it.
fn needs_programs(path: &str) -> Option<&'static str> {
    match path {
        PROGRAMS => {
            Some("the programs of Kubernetes and of the runtime cannot start from this file system")
        }
        "/opt/cni/bin" => Some(
            "the runtime cannot start the programs of the network plugin, so that no pod gets a network",
        ),
        KUBELET => Some("pods cannot start programs that are in their volumes"),
        _ => None,
    }
}

fn options(asked: &Asked<'_>) -> Vec<Problem> {
    let mounts = mounts(asked.answers).filter(|mount| has(asked, mount.path));
    let mounts = mounts.filter_map(|mount| {
        Some(Problem {
            breaks: mount.is_certain,
            is_later: false,
            what: format!("{} is mounted with noexec", mount.path),
            evidence: vec![mount.line.to_owned()],
            cause: mount.lost?.to_owned(),
            fix: format!(
                "mount the file system of {} with exec, also in /etc/fstab",
                mount.path
            ),
            commands: Vec::new(),
        })
    });
    mounts.collect()
}

/// Returns whether other machines have the files of a file system.
fn is_remote(kind: &str) -> bool {
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "glusterfs"].contains(&kind)
        || kind.starts_with("fuse.")
}

fn kinds(asked: &Asked<'_>) -> Vec<Problem> {
    let runtime = asked.cluster.runtime.data_directory();
    let member = member_directory(asked.cluster, asked.host);
    let types = asked.answers.one("xfs");
    let own = mounts(asked.answers).filter(|mount| has(asked, mount.path));
    own.filter_map(|mount| {
        let (path, point) = (mount.path, mount.point);
        let (breaks, kind, cause) = match mount.kind {
            "xfs" if path == runtime && types.is_none() => return Some(unread(&mount)),
            "xfs" if path == runtime && types == Some("ftype=0") => {
                (true, "XFS without ftype", NO_LAYERS)
            }
            kind if path == runtime && (is_remote(kind) || kind == "overlay") => {
                (true, kind, NO_LAYERS)
            }
            kind if path == KUBELET && is_remote(kind) => (
                true,
                kind,
                "the kubelet has sockets and mounts of volumes there",
            ),
            kind if Some(path) == member && is_remote(kind) => (
                false,
                kind,
                "etcd loses its leader when the network delays what it writes",
            ),
            _ => return None,
        };
        Some(Problem {
            breaks,
            is_later: false,
            what: format!("{path} is on {kind}, mounted at {point}"),
            evidence: vec![mount.line.to_owned()],
            cause: cause.to_owned(),
            fix: format!("mount a local file system at {path}, such as ext4, or XFS with ftype=1"),
            commands: Vec::new(),
        })
    })
    .collect()
}

/// Returns the problem of XFS of which neither `xfs_info` nor the superblock says whether its directory entries have types.
fn unread(mount: &Mount<'_>) -> Problem {
    let point = mount.point;
    Problem {
        breaks: false,
        is_later: false,
        what: format!("kubexm cannot read whether the XFS at {point} has ftype"),
        evidence: vec![mount.line.to_owned()],
        cause: format!(
            "{} is on it, and without ftype, {NO_LAYERS}; the host does not have xfs_info, and its device cannot be read",
            mount.path
        ),
        fix: format!(
            "install the package xfsprogs, and look for ftype=1 in the output of `xfs_info {point}`"
        ),
        commands: Vec::new(),
    }
}

/// What a file system without the features of an upper layer causes
/// (<https://docs.kernel.org/filesystems/overlayfs.html#upper-and-lower>).
const NO_LAYERS: &str = "the kernel cannot mount the layers of containers on it";

/// Programs compare paths as text: a reset keeps what is behind a link, and the kubelet leaves volumes mounted there.
fn links(asked: &Asked<'_>) -> Vec<Problem> {
    let links = asked.answers.all("link").iter().filter_map(|line| {
        let (path, target) = line.split_once(' ')?;
        has(asked, path).then(|| Problem {
            breaks: true,
            is_later: false,
            what: format!("{path} is behind a symbolic link, to {target}"),
            evidence: vec![format!("{path} -> {target}")],
            cause: "the kubelet does not find its mounts behind a link, and a reset keeps what is there".to_owned(),
            fix: format!("remove the link, create {path}, and mount {target} there with the option bind, also in /etc/fstab"),
            commands: Vec::new(),
        })
    });
    links.collect()
}

/// Returns the directory in which kubeadm creates a member of etcd on a host; `None` for other hosts and for other members, which do
/// not need an empty one.
pub(super) fn etcd_directory(cluster: &Cluster, host: &HostName) -> Option<String> {
    match &cluster.etcd {
        Etcd::Kubeadm { data_dir, .. } if cluster.is_control_plane(host) => {
            Some(data_dir.to_string())
        }
        _ => None,
    }
}

fn etcd_data(asked: &Asked<'_>) -> Vec<Problem> {
    let files = asked.answers.all("etcd_entry");
    let directory = etcd_directory(asked.cluster, asked.host);
    let Some(directory) = directory.filter(|_| !files.is_empty()) else {
        return Vec::new();
    };
    vec![Problem {
        breaks: true,
        is_later: false,
        what: format!("{directory} has files: {}", files.join(", ")),
        evidence: files.to_vec(),
        cause: "kubeadm creates a member of etcd only in an empty directory".to_owned(),
        fix: format!(
            "set etcd.dataDir to a directory below it, such as {directory}/data, or remove the files"
        ),
        commands: Vec::new(),
    }]
}
