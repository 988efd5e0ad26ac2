//! File systems that the next boot does not mount.

use std::collections::BTreeMap;

use kubexm_config::Cluster;
use kubexm_types::{FindingKind, HostName};

use super::check::{Asked, HostCheck, Problem, When};
use super::disks;
use crate::disk_space::{KUBELET, member_directory};

pub(super) const UNSAVED: HostCheck = HostCheck {
    kind: FindingKind::FileSystems,
    when: When::Always,
    read: "mounts of data directories that neither /etc/fstab nor a unit of systemd repeats",
    find: unsaved,
};

pub(super) const NEXT_OPTIONS: HostCheck = HostCheck {
    kind: FindingKind::FileSystems,
    when: When::Always,
    read: "options in /etc/fstab of the file systems of programs and data",
    find: next_options,
};

/// Returns the directories whose content programs need after a boot.
pub(crate) fn directories<'a>(cluster: &'a Cluster, host: &HostName) -> Vec<&'a str> {
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
    let unsaved = parsed(asked.answers.all("unsaved_mount"));
    let on_demand = parsed(asked.answers.all("noauto_mount"));
    let unsaved = unsaved.into_iter().map(|(point, own)| problem(point, &own));
    let on_demand = on_demand
        .into_iter()
        .map(|(point, own)| not_mounted(point, &own));
    unsaved.chain(on_demand).collect()
}

/// Reads lines of the script, by mount point.
fn parsed(lines: &[String]) -> BTreeMap<&str, Mount<'_>> {
    let mut mounts: BTreeMap<&str, Mount<'_>> = BTreeMap::new();
    for line in lines {
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
}

/// Returns the effect of a mount that the next boot does not repeat.
fn without_data(directories: &[&str]) -> String {
    format!(
        "after the next boot, {} would be on another file system, without its data",
        directories.join(" and ")
    )
}

/// Returns the problem of a mount that only programs or users repeat.
fn not_mounted(point: &str, mount: &Mount<'_>) -> Problem {
    Problem {
        breaks: true,
        is_later: true,
        what: format!("/etc/fstab has the option noauto for {point}"),
        evidence: vec![format!("{} {point} {}", mount.source, mount.kind)],
        cause: without_data(&mount.directories),
        fix: format!("remove noauto from the line of {point} in /etc/fstab"),
        commands: Vec::new(),
    }
}

/// Compares the options that the next boot uses with the present ones.
fn next_options(asked: &Asked<'_>) -> Vec<Problem> {
    let present: Vec<disks::Mount<'_>> = disks::mounts(asked.answers).collect();
    let next = asked.answers.all("next_mount").iter();
    let next = next.filter_map(|line| disks::Mount::parse(line));
    next.filter(|next| disks::has(asked, next.path))
        .filter_map(|next| {
            let mut present = present.iter();
            let now = present.find(|now| now.path == next.path && now.point == next.point)?;
            let (option, cause) = if next.is_read_only && !now.is_read_only {
                ("ro", "no program can write there")
            } else {
                ("noexec", next.lost.filter(|_| now.lost.is_none())?)
            };
            Some(Problem {
                breaks: option == "ro" || next.is_certain,
                is_later: true,
                what: format!(
                    "/etc/fstab mounts {}, which has {}, with {option}",
                    next.point, next.path
                ),
                evidence: vec![format!("/etc/fstab: {}", next.line)],
                cause: format!("after the next boot, {cause}"),
                fix: format!(
                    "remove {option} from the line of {} in /etc/fstab",
                    next.point
                ),
                commands: Vec::new(),
            })
        })
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
        cause: without_data(directories),
        fix,
        commands,
    }
}
