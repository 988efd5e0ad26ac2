//! File systems: their options, and what is in the directory of etcd.

use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_host::Answers;
use kubexm_types::{FindingKind, HostName};

use crate::disk_space::KUBELET;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const MOUNT_OPTIONS: HostCheck = HostCheck {
    kind: FindingKind::MountOptions,
    when: When::BeforeInstall,
    read: "options of the file systems of programs",
    find: options,
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
    /// The path and the options.
    pub line: &'a str,
    pub is_read_only: bool,
    /// What does not work because programs below the path cannot start; `None` if they can, or if none has to.
    pub lost: Option<&'static str>,
    /// Whether it is lost for sure.
    pub is_certain: bool,
}

/// Returns the file systems of the directories of a cluster.
pub fn mounts(answers: &Answers) -> impl Iterator<Item = Mount<'_>> {
    answers.all("mount").iter().filter_map(|line| {
        let (path, options) = line.split_once(' ')?;
        let has = |option: &str| options.split(',').any(|one| one == option);
        Some(Mount {
            path,
            line,
            is_read_only: has("ro"),
            lost: needs_programs(path).filter(|_| has("noexec")),
            is_certain: path != KUBELET,
        })
    })
}

/// Returns what does not work if programs below a path cannot start; `None` if none has to. The programs of containers are on an
/// overlay, whose own options count, and not those of the file system below it.
fn needs_programs(path: &str) -> Option<&'static str> {
    match path {
        "/usr/local/bin" => {
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
    let mounts = mounts(asked.answers).filter_map(|mount| {
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

/// Programs compare paths as text: a reset keeps what is behind a link, and the kubelet leaves volumes mounted there.
fn links(asked: &Asked<'_>) -> Vec<Problem> {
    let links = asked.answers.all("link").iter().filter_map(|line| {
        let (path, target) = line.split_once(' ')?;
        Some(Problem {
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
