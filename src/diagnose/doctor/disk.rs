//! Disks: programs that cannot write fail in many ways.

use super::check::{Check, Found, Lasts, Outcome, Source};
use super::report::Area;
use super::seen::{KUBELET, Seen};
use crate::status::{DiskState, InodeState, Problem, ProblemKind, Subject};
use kubexm_preflight::host_checks;
use kubexm_types::HostName;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "dead-mount",
        area: Area::Disk,
        source: Source::Hosts,
        read: "/proc/mounts, and statfs(2) of each network file system, at most 3 s each",
        run: dead_mount,
    },
    Check {
        id: "disk-space",
        area: Area::Disk,
        source: Source::Hosts,
        read: "df of the directories of the kubelet, the container runtime, etcd and the registry",
        run: space,
    },
    Check {
        id: "inodes",
        area: Area::Disk,
        source: Source::Hosts,
        read: "df -i of the same directories, and of /var/log/pods",
        run: inodes,
    },
    Check {
        id: "mount-options",
        area: Area::Disk,
        source: Source::Hosts,
        read: "/proc/mounts: options of the file systems of the same directories",
        run: options,
    },
];

/// Why a file system is read-only.
const REMOUNTED: &str =
    "the kernel remounts a file system read-only after errors of the disk, or /etc/fstab says so";
/// What few free inodes cause.
const NO_INODES: &str = "no program can create a file there, although bytes are free";

/// Free space in bytes below which a file system is full. etcd allocates as much at once for its log.
const FULL: u64 = 64 << 20;
/// Free inodes below which a file system has none for a new container.
const NO_INODES_LEFT: u64 = 64;

/// Returns whether a node reports that its disk has too little space, so that it evicts pods.
fn evicts(seen: &Seen, host: &HostName) -> bool {
    seen.problems("node").any(|problem| {
        problem.host.as_ref() == Some(host) && problem.kind == ProblemKind::DiskPressure
    })
}

/// Returns whether a problem of `status` is a file system on which `has_space`, and whose node evicts no pods.
fn still_works(seen: &Seen, problem: &Problem, has_space: impl Fn(&DiskState) -> bool) -> bool {
    let Some(host) = &problem.host else {
        return false;
    };
    let mut states = seen.report.hosts.iter();
    let state = states.find(|state| state.host == *host);
    let mut disks = state.iter().flat_map(|state| &state.disks);
    let disk = disks.find(|disk| problem.subject == Subject::Mount(disk.mount.clone()));
    disk.is_some_and(has_space) && !evicts(seen, host)
}

fn unless_silent(seen: &Seen, found: Vec<Found>) -> Outcome {
    if seen.hosts.is_empty() {
        Outcome::Unknown("no host answers".to_owned())
    } else {
        Outcome::Known(found)
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
            let words = format!("umount -l {}", kubexm_session::quoting::quoted(path));
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
        let found = found.warning(still_works(seen, problem, |disk| disk.free >= FULL));
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
                    .about(Subject::Mount(mount.to_owned()))
                    .on(host)
                    .evidence([format!("{path} is on {mount}")])
                    .cause(NO_INODES)
                    .fix("remove directories with many small files")
                    .warning(free >= NO_INODES_LEFT && !evicts(seen, host));
                let line = format!(
                    "du --inodes -xd3 {} | sort -n | tail -n 15",
                    kubexm_session::quoting::quoted(mount)
                );
                all.push(found.run(seen.line.shell(host, &line)));
            }
        }
    }
    all.dedup_by(|one, other| one.what == other.what && one.hosts == other.hosts);
    let is_same = |problem: &Problem, found: &Found| problem.subject == found.subject;
    let has_inodes = |disk: &DiskState| {
        let inodes = disk.inodes.as_ref();
        inodes.is_some_and(|inodes| inodes.free >= NO_INODES_LEFT)
    };
    let more = more(seen, "inodes", &all, is_same);
    all.extend(more.into_iter().map(|problem| {
        let found = Found::of(problem).cause(NO_INODES);
        found.warning(still_works(seen, problem, has_inodes))
    }));
    unless_silent(seen, all)
}

/// Returns the problems of `status` for a check that are not the same as one that was found on their host: `status` looks at
/// further directories, such as that of the registry and those of the system.
fn more<'a>(
    seen: &'a Seen,
    check: &str,
    found: &[Found],
    is_same: impl Fn(&Problem, &Found) -> bool,
) -> Vec<&'a Problem> {
    let is_named = |problem: &Problem| {
        found.iter().any(|found| {
            let mut hosts = problem.host.iter();
            is_same(problem, found) && hosts.any(|host| found.hosts.contains(host))
        })
    };
    let problems = seen.problems(check).filter(|problem| !is_named(problem));
    problems.collect()
}

fn options(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.hosts() {
        for mount in host_checks::mounts(answers) {
            let path = mount.path;
            let (what, cause) = match (mount.is_read_only, mount.lost) {
                (true, _) => ("read-only", REMOUNTED),
                (false, Some(cause)) => ("mounted with noexec", cause),
                (false, None) => continue,
            };
            let kind = if mount.is_read_only {
                ProblemKind::ReadOnly
            } else {
                ProblemKind::Other
            };
            let mut found = Found::new(format!("{path} is {what}"))
                .of_kind(kind)
                .on(host)
                .evidence([mount.line])
                .cause(cause)
                .fix("look for errors of the disk first, then mount the file system again");
            if !mount.is_certain && !mount.is_read_only {
                found = found.possible();
            }
            // A kubelet does not start without writes there, and nothing mounts the file system again.
            let is_data =
                path == "/var/lib/kubelet" || path == seen.cluster.runtime.data_directory();
            let lasts = mount.is_read_only && is_data;
            let lasts = lasts.then(|| Lasts::Without(KUBELET.to_owned()));
            let path = kubexm_session::quoting::quoted(path);
            all.push(
                found
                    .lasts(lasts)
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
    let is_same = |_: &Problem, found: &Found| found.kind == ProblemKind::ReadOnly;
    let more = more(seen, "mount-options", &all, is_same);
    let more = more.into_iter();
    all.extend(more.map(|problem| Found::of(problem).cause(REMOUNTED)));
    unless_silent(seen, all)
}
