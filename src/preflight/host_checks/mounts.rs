//! File systems that the next boot does not mount.

use std::collections::BTreeMap;

use kubexm_config::Cluster;
use kubexm_types::{FindingKind, HostName};

use super::check::{Asked, HostCheck, Problem, When};
use crate::disk_space::{KUBELET, member_directory};

pub(super) const UNSAVED: HostCheck = HostCheck {
    kind: FindingKind::FileSystems,
    when: When::Always,
    read: "mounts of data directories that neither /etc/fstab nor a unit of systemd repeats",
    find: unsaved,
};

/// Returns the directories whose content programs need after a boot.
pub(super) fn directories<'a>(cluster: &'a Cluster, host: &HostName) -> Vec<&'a str> {
    let mut directories = Vec::new();
    if cluster.is_node(host) {
        directories.extend([KUBELET, cluster.runtime.data_directory()]);
    }
    directories.extend(member_directory(cluster, host));
    if cluster.roles.registry.contains(host) && cluster.registry.external.is_none() {
        directories.push(cluster.registry.data_dir.as_str());
    }
    directories
}

/// A line that the script prints.
struct Mount<'a> {
    root: &'a str,
    kind: &'a str,
    source: &'a str,
    options: &'a str,
    directories: Vec<&'a str>,
}

impl Mount<'_> {
    /// Returns the options of the mount and of its file system, each once.
    fn options(&self) -> String {
        let mut options: Vec<&str> = Vec::new();
        for one in self.options.split(',').filter(|one| !one.is_empty()) {
            if !options.contains(&one) {
                options.push(one);
            }
        }
        options.join(",")
    }
}

/// Returns whether no shell changes a text.
fn is_plain(text: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "/._-+=:,@ ".contains(one);
    text.chars().all(is_plain)
}

fn unsaved(asked: &Asked<'_>) -> Vec<Problem> {
    let mut mounts: BTreeMap<&str, Mount<'_>> = BTreeMap::new();
    for line in asked.answers.all("unsaved_mount") {
        let words: Vec<&str> = line.split(' ').collect();
        let [point, root, kind, source, options, directory] = words[..] else {
            continue;
        };
        // The ZFS pool has the mount points of its file systems.
        if kind == "zfs" {
            continue;
        }
        let mount = mounts.entry(point).or_insert(Mount {
            root,
            kind,
            source,
            options,
            directories: Vec::new(),
        });
        mount.directories.push(directory);
    }
    mounts
        .into_iter()
        .map(|(point, mount)| problem(point, &mount))
        .collect()
}

fn problem(point: &str, mount: &Mount<'_>) -> Problem {
    let Mount {
        root,
        kind,
        source,
        directories,
        ..
    } = mount;
    // The next boot may give the disk another name. A part of a file system needs an option that the kernel does not print.
    let rest = format!("{point} {kind} {}", mount.options());
    let (fix, commands) = if *root != "/" {
        let fix = format!(
            "add a line for {point} to /etc/fstab, with the option bind, or subvol of btrfs"
        );
        (fix, Vec::new())
    } else if source.starts_with("/dev/") && is_plain(source) && is_plain(&rest) {
        let line = format!(
            "uuid=$(blkid -s UUID -o value {source}) && echo \"UUID=$uuid {rest} 0 0\" >>/etc/fstab"
        );
        ("add its line to /etc/fstab".to_owned(), vec![line])
    } else {
        let fix = format!("add a line for {point} to /etc/fstab, which has now: {source} {rest}");
        (fix, Vec::new())
    };
    Problem {
        breaks: true,
        is_later: true,
        what: format!("neither /etc/fstab nor a unit of systemd mounts {source} at {point}"),
        evidence: vec![format!("{source} {point} {kind}")],
        cause: format!(
            "after the next boot, {} would be on another file system, without its data",
            directories.join(" and ")
        ),
        fix,
        commands,
    }
}
