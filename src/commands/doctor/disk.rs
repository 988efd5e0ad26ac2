//! Disks: programs that cannot write fail in many ways.

use super::check::{Check, Found, Outcome};
use super::report::Area;
use super::seen::Seen;
use crate::status::{InodeState, Problem};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "dead-mount",
        area: Area::Disk,
        read: "/proc/mounts, and statfs(2) of each network file system, at most 3 s each",
        run: dead_mount,
    },
    Check {
        id: "disk-space",
        area: Area::Disk,
        read: "df of the directories of the kubelet, the container runtime, etcd and the registry",
        run: space,
    },
    Check {
        id: "inodes",
        area: Area::Disk,
        read: "df -i of the same directories, and of /var/log/pods",
        run: inodes,
    },
    Check {
        id: "mount-options",
        area: Area::Disk,
        read: "/proc/mounts: options of the file systems of the same directories",
        run: options,
    },
];

const READ_ONLY: &str = "read-only";
/// Why a file system is read-only.
const REMOUNTED: &str =
    "the kernel remounts a file system read-only after errors of the disk, or /etc/fstab says so";
/// What few free inodes cause.
const NO_INODES: &str = "no program can create a file there, although bytes are free";

fn unless_silent(seen: &Seen, found: Vec<Found>) -> Outcome {
    match seen.hosts.is_empty() {
        true => Outcome::Unknown("no host answers".to_owned()),
        false => Outcome::Known(found),
    }
}

fn dead_mount(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.hosts() {
        for mount in answers.all("dead_mount") {
            let path = mount.split(' ').next().unwrap_or(mount);
            let found = Found::new(format!("the file system at {path} does not answer"))
                .on(host)
                .evidence([mount])
                .cause("its server is gone, and every process that touches the directory hangs")
                .fix("start the server, or unmount the file system");
            let words = format!("umount -l {}", crate::quoting::quoted(path));
            all.push(found.run(seen.line.on(host, &words)));
        }
    }
    unless_silent(seen, all)
}

fn space(seen: &Seen) -> Outcome {
    let found = seen.problems("disk-space").map(|problem| {
        let found = Found::of(problem).cause(
            "with little space the kubelet evicts pods and removes images; without any, etcd and the API server stop",
        );
        match &problem.host {
            Some(host) => found
                .run(seen.line.shell(
                    host,
                    "du -xh --max-depth=3 /var 2>/dev/null | sort -h | tail -n 15",
                ))
                .run(seen.line.on(host, "journalctl --vacuum-size=200M")),
            None => found,
        }
    });
    Outcome::Known(found.collect())
}

fn inodes(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.hosts() {
        for line in answers.all("inodes") {
            let words: Vec<&str> = line.split(' ').collect();
            let [path, free, total, mount] = words[..] else {
                continue;
            };
            let (Ok(free), Ok(total)) = (free.parse::<u64>(), total.parse::<u64>()) else {
                continue;
            };
            if (InodeState { free, total }).are_few() {
                let found = Found::new(format!("{mount} has {free} of {total} inodes free"))
                    .on(host)
                    .evidence([format!("{path} is on {mount}")])
                    .cause(NO_INODES)
                    .fix("remove directories with many small files");
                let line = format!(
                    "du --inodes -xd3 {} | sort -n | tail -n 15",
                    crate::quoting::quoted(mount)
                );
                all.push(found.run(seen.line.shell(host, &line)));
            }
        }
    }
    all.dedup_by(|one, other| one.what == other.what && one.hosts == other.hosts);
    let is_same = |problem: &Problem, found: &Found| {
        let mount = found.what.split(" has ").next().unwrap_or_default();
        problem.what.starts_with(&format!("{mount} has "))
    };
    let more = more(seen, "inodes", NO_INODES, &all, is_same);
    all.extend(more);
    unless_silent(seen, all)
}

/// Returns the problems of `status` for a check, with their cause, that are not the same as one that was found on their host:
/// `status` looks at further directories, such as that of the registry and those of the system.
fn more(
    seen: &Seen,
    check: &str,
    cause: &str,
    found: &[Found],
    is_same: impl Fn(&Problem, &Found) -> bool,
) -> Vec<Found> {
    let is_named = |problem: &Problem| {
        found.iter().any(|found| {
            let mut hosts = problem.host.iter();
            is_same(problem, found) && hosts.any(|host| found.hosts.contains(host))
        })
    };
    let problems = seen.problems(check).filter(|problem| !is_named(problem));
    problems
        .map(|problem| Found::of(problem).cause(cause))
        .collect()
}

fn options(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.hosts() {
        for line in answers.all("mount") {
            let Some((path, options)) = line.split_once(' ') else {
                continue;
            };
            let has = |option: &str| options.split(',').any(|one| one == option);
            let what = if has("ro") {
                READ_ONLY
            } else if has("noexec") && !path.starts_with("/var/log") && path != "/var/lib/etcd" {
                "mounted with noexec"
            } else {
                continue;
            };
            let found = Found::new(format!("{path} is {what}"))
                .on(host)
                .evidence([line])
                .cause(match what {
                    READ_ONLY => REMOUNTED,
                    _ => "no container can start from a file system that permits no program",
                })
                .fix("look for errors of the disk first, then mount the file system again");
            let path = crate::quoting::quoted(path);
            all.push(
                found
                    .run(
                        seen.line
                            .shell(host, "journalctl -k | grep -iE 'error|remount' | tail"),
                    )
                    .run(seen.line.shell(
                        host,
                        &format!("mount -o remount,rw,exec $(findmnt -no TARGET -T {path})"),
                    )),
            );
        }
    }
    let is_same = |_: &Problem, found: &Found| found.what.ends_with(READ_ONLY);
    let more = more(seen, "mount-options", REMOUNTED, &all, is_same);
    all.extend(more);
    unless_silent(seen, all)
}
