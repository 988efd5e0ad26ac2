//! Free space and inodes of the file systems that a cluster writes.

use std::collections::BTreeMap;

use super::report::{About, DiskState, InodeState, Problem, ProblemKind, Subject};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_host::Facts;
use kubexm_session::data_directories::{self, Directory};

/// Free space in percent below which there is a problem. For the kubelet and the runtime it is the highest default of the
/// kubelet's thresholds, `imagefs.available`
/// (<https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>).
const LIMIT_PERCENT: u64 = 15;
/// Free space in bytes above which a file system that only etcd or a registry writes has no problem: their needs do not grow
/// with the size of the disk. It holds the largest database that etcd recommends, 8 GiB.
const LIMIT_BYTES: u64 = 10 << 30;

/// Returns the file systems of a host, and a problem for those that are almost full, cannot be written, or did not answer.
pub(super) fn judge(
    cluster: &Cluster,
    host: &HostSpec,
    facts: &Facts,
) -> (Vec<DiskState>, Vec<Problem>) {
    let mut mounts: BTreeMap<&str, (DiskState, bool)> = BTreeMap::new();
    let directories = data_directories::of(cluster, host);
    let mut problems: Vec<Problem> = read_only(facts, &directories).into_iter().collect();
    let unmounted = data_directories::unmounted(cluster, host, facts);
    problems.extend(unmounted.map(|(what, hint)| Problem::new(About::Disk, what, hint)));
    for directory in directories {
        let Some(disk) = facts.disks.get(directory.path) else {
            problems.push(unanswered(directory.path));
            continue;
        };
        let bytes = |kib: u64| kib.saturating_mul(1024);
        let inodes = facts.inodes.get(directory.path).map(|inodes| InodeState {
            free: inodes.free,
            total: inodes.total,
        });
        let new = || {
            let disk = DiskState {
                mount: disk.mount.clone(),
                directories: Vec::new(),
                free: bytes(disk.free),
                size: bytes(disk.size),
                inodes,
            };
            (disk, false)
        };
        let (disk, is_of_kubelet) = mounts.entry(disk.mount.as_str()).or_insert_with(new);
        disk.directories.push(directory.path.to_owned());
        *is_of_kubelet |= directory.is_of_kubelet;
    }
    let has_own_limit = !cluster.kubernetes.kubelet.extra_config["evictionHard"].is_null();
    let mut disks = Vec::new();
    for (disk, is_of_kubelet) in mounts.into_values() {
        let is_low = disk.percent() < LIMIT_PERCENT;
        let evicts = is_of_kubelet && !has_own_limit;
        if is_low && (evicts || disk.free < LIMIT_BYTES) {
            problems.push(low(&disk, evicts));
        }
        if let Some(inodes) = disk.inodes
            && inodes.are_few()
        {
            problems.push(few_inodes(&disk, inodes, evicts));
        }
        disks.push(disk);
    }
    let problems = problems.into_iter();
    (disks, problems.map(|one| one.on(&host.name)).collect())
}

/// Returns a problem if the host cannot write directories that every install writes, or its directories of the cluster. An
/// install could write them, so that their file system was mounted read-only since, as the kernel does after an error of the
/// disk.
fn read_only(facts: &Facts, directories: &[Directory<'_>]) -> Option<Problem> {
    let mut folders: Vec<&str> = facts.read_only.iter().map(String::as_str).collect();
    let paths = directories.iter().map(|directory| directory.path);
    folders.extend(paths.filter(|path| facts.read_only_disks.contains(*path)));
    if folders.is_empty() {
        return None;
    }
    let what = format!(
        "cannot write {}: the file system is mounted read-only",
        folders.join(", ")
    );
    let hint = "look for errors of the disk in the log of the kernel with `dmesg`, repair the file system, and mount it for \
                writing: programs that cannot write fail";
    Some(Problem::new(About::Disk, what, hint).of_kind(ProblemKind::ReadOnly))
}

/// Returns the problem of a directory whose space is not known.
fn unanswered(path: &str) -> Problem {
    let what = format!("the free space of {path} is not known: `df` has not answered");
    let hint = "run `df -k` on the host: it shows an error for the file system that is broken or was unmounted";
    Problem::new(About::Disk, what, hint)
}

fn low(disk: &DiskState, evicts: bool) -> Problem {
    let (mount, percent, free) = (&disk.mount, disk.percent(), shown(disk.free));
    let directories = disk.directories.join(", ");
    let what = format!("{mount} has {percent} % free, {free}, for {directories}");
    let hint = if evicts {
        format!(
            "free space on {mount}, or enlarge it: with little space, the kubelet evicts pods and removes images"
        )
    } else {
        format!("free space on {mount}, or enlarge it: programs that cannot write fail")
    };
    Problem::new(About::Disk, what, hint).of(Subject::Mount(mount.clone()))
}

fn few_inodes(disk: &DiskState, inodes: InodeState, evicts: bool) -> Problem {
    let (mount, percent) = (&disk.mount, inodes.percent());
    let (free, total, directories) = (inodes.free, inodes.total, disk.directories.join(", "));
    let what =
        format!("{mount} has {percent} % of its inodes free, {free} of {total}, for {directories}");
    let hint = if evicts {
        "with few inodes, the kubelet evicts pods and removes images"
    } else {
        "programs that cannot create a file fail"
    };
    let hint =
        format!("remove small files on {mount}, which `du --inodes -x {mount}` counts: {hint}");
    Problem::new(About::Disk, what, hint)
        .of_kind(ProblemKind::Inodes)
        .of(Subject::Mount(mount.clone()))
}

/// Returns a size with a binary unit.
fn shown(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mib @ 1..1024 => format!("{mib} MiB"),
        mib => format!("{} GiB", mib >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_host::facts::{Disk, Inodes};
    use kubexm_session::data_directories::paths;
    use kubexm_session::example::cluster_of_two as cluster;

    const GIB: u64 = 1 << 20;

    /// Judges a control plane with the registry; all directories but those given are on `/` with 50 % free.
    fn judged(cluster: &Cluster, others: &[(&str, u64, u64)]) -> Vec<String> {
        let root = Disk {
            free: 50 * GIB,
            size: 100 * GIB,
            mount: "/".to_owned(),
        };
        let mut facts = Facts::default();
        for path in paths(cluster) {
            facts.disks.insert(path, root.clone());
        }
        for (path, free, size) in others {
            let disk = Disk {
                free: *free,
                size: *size,
                mount: (*path).to_owned(),
            };
            facts.disks.insert((*path).to_owned(), disk);
        }
        let (disks, problems) = judge(cluster, &cluster.hosts[0], &facts);
        assert_eq!(disks.len(), others.len() + 1);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn limit_of_the_kubelet_is_a_part_of_the_disk() {
        let cluster = cluster("");
        let found = |free, size| judged(&cluster, &[("/var/lib/containerd", free, size)]);
        assert!(found(150 * GIB, 1000 * GIB).is_empty());
        let low = found(149 * GIB, 1000 * GIB);
        insta::assert_snapshot!(low[0], @"
        node1: /var/lib/containerd has 14 % free, 149 GiB, for /var/lib/containerd
          hint: free space on /var/lib/containerd, or enlarge it: with little space, the kubelet evicts pods and removes images
        ");
    }

    #[test]
    fn data_needs_little_space_on_a_large_disk() {
        let cluster = cluster("");
        for path in ["/var/lib/etcd", "/var/lib/kubexm/registry", "/var/log"] {
            let found = |free, size| judged(&cluster, &[(path, free, size)]).len();
            assert_eq!(found(11 * GIB, 1000 * GIB), 0, "{path}");
            assert_eq!(found(9 * GIB, 1000 * GIB), 1, "{path}");
            // A small disk for etcd alone is not a problem while it is not full.
            assert_eq!(found(2 * GIB, 8 * GIB), 0, "{path}");
            assert_eq!(found(0, 0), 1, "{path}");
        }
    }

    #[test]
    fn thresholds_of_the_user_replace_the_limit_of_the_kubelet() {
        let cluster = cluster("kubelet: {extraConfig: {evictionHard: {imagefs.available: 1Gi}}}");
        let found = |free| judged(&cluster, &[("/var/lib/kubelet", free, 1000 * GIB)]).len();
        assert_eq!((found(20 * GIB), found(9 * GIB)), (0, 1));
    }

    /// Returns the problems of a host whose disks have enough space, after a change.
    fn changed(change: impl FnOnce(&mut Facts)) -> String {
        let cluster = cluster("");
        let root = Disk {
            free: 50 * GIB,
            size: 100 * GIB,
            mount: "/".to_owned(),
        };
        let paths = paths(&cluster).into_iter();
        let mut facts = Facts {
            disks: paths.map(|path| (path, root.clone())).collect(),
            ..Facts::default()
        };
        change(&mut facts);
        let (disks, problems) = judge(&cluster, &cluster.hosts[0], &facts);
        assert_eq!(disks.len(), 1);
        let problems = problems.iter().map(ToString::to_string);
        problems.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn unknown_space_is_a_problem_and_not_a_full_disk() {
        let found = changed(|facts| drop(facts.disks.remove("/var/lib/etcd")));
        insta::assert_snapshot!(found, @"
        node1: the free space of /var/lib/etcd is not known: `df` has not answered
          hint: run `df -k` on the host: it shows an error for the file system that is broken or was unmounted
        ");
        // Directories of other roles do not count.
        let cluster = cluster("");
        let (disks, problems) = judge(&cluster, &cluster.hosts[1], &Facts::default());
        assert_eq!((disks.len(), problems.len()), (0, 3));
    }

    #[test]
    fn few_free_inodes_are_a_problem_although_bytes_are_free() {
        let of = |free| {
            changed(|facts| {
                let paths = facts.disks.keys().cloned();
                let inodes = Inodes { free, total: 1000 };
                facts.inodes = paths.map(|path| (path, inodes)).collect();
            })
        };
        assert_eq!(of(50), "");
        insta::assert_snapshot!(of(49), @"
        node1: / has 4 % of its inodes free, 49 of 1000, for /var/lib/kubelet, /var/lib/containerd, /var/log, /var/lib/etcd, /var/lib/kubexm/registry
          hint: remove small files on /, which `du --inodes -x /` counts: with few inodes, the kubelet evicts pods and removes images
        ");
        // Thresholds of the user replace those of the kubelet.
        let cluster = cluster("kubelet: {extraConfig: {evictionHard: {imagefs.available: 1Gi}}}");
        let disk = Disk {
            free: 50 * GIB,
            size: 100 * GIB,
            mount: "/srv".to_owned(),
        };
        let paths = || paths(&cluster).into_iter();
        let facts = Facts {
            disks: paths().map(|path| (path, disk.clone())).collect(),
            inodes: paths()
                .map(|path| (path, Inodes { free: 0, total: 7 }))
                .collect(),
            ..Facts::default()
        };
        let (disks, problems) = judge(&cluster, &cluster.hosts[1], &facts);
        assert_eq!(disks[0].inodes, Some(InodeState { free: 0, total: 7 }));
        insta::assert_snapshot!(problems[0], @"
        node2: /srv has 0 % of its inodes free, 0 of 7, for /var/lib/kubelet, /var/lib/containerd, /var/log
          hint: remove small files on /srv, which `du --inodes -x /srv` counts: programs that cannot create a file fail
        ");
    }

    #[test]
    fn data_directory_that_cannot_be_written_is_a_problem_where_it_is_used() {
        let read_only =
            |path: &str| changed(|facts| facts.read_only_disks = [path.to_owned()].into());
        insta::assert_snapshot!(read_only("/var/lib/containerd"), @"
        node1: cannot write /var/lib/containerd: the file system is mounted read-only
          hint: look for errors of the disk in the log of the kernel with `dmesg`, repair the file system, and mount it for writing: programs that cannot write fail
        ");
        // A worker has no member of etcd.
        let cluster = cluster("");
        let mut facts = Facts::default();
        facts.read_only_disks.insert("/var/lib/etcd".to_owned());
        let (_, problems) = judge(&cluster, &cluster.hosts[1], &facts);
        let found: String = problems.iter().map(ToString::to_string).collect();
        assert!(!found.contains("read-only"), "{found}");
    }

    #[test]
    fn directory_whose_file_system_is_not_mounted_is_a_problem() {
        let found = changed(|facts| {
            let of_etcd = ("/var/lib/etcd".to_owned(), "/var/lib/etcd".to_owned());
            facts.unmounted = [of_etcd].into();
        });
        insta::assert_snapshot!(found, @"
        node1: /var/lib/etcd of /etc/fstab is not mounted, so that /var/lib/etcd would be on another file system
          hint: run `mount /var/lib/etcd` on the host, and look at `dmesg` if it fails; if the disk is not used any more, remove its line from /etc/fstab
        ");
    }

    #[test]
    fn file_system_that_cannot_be_written_is_a_problem() {
        let found = changed(|facts| {
            facts.read_only = ["/etc", "/var/lib"].map(str::to_owned).into();
        });
        insta::assert_snapshot!(found, @"
        node1: cannot write /etc, /var/lib: the file system is mounted read-only
          hint: look for errors of the disk in the log of the kernel with `dmesg`, repair the file system, and mount it for writing: programs that cannot write fail
        ");
    }
}
