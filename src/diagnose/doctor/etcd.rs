//! etcd: members, alarms, quorum and its disk.

use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;
use crate::status::ProblemKind;
use kubexm_config::cluster::Etcd;
use kubexm_config::ports;
use kubexm_etcd::Status;
use kubexm_types::HostName;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "etcd-disk",
        area: Area::Etcd,
        source: Source::Members,
        read: "the log of each member: 'slow fdatasync'",
        run: disk,
    },
    Check {
        id: "etcd-data",
        area: Area::Etcd,
        source: Source::Members,
        read: "the log of each member: damaged files, other clusters",
        run: disk,
    },
    Check {
        id: "etcd-member",
        area: Area::Etcd,
        source: Source::Members,
        read: "the unit or static pod of each member, and etcdctl endpoint status on its host",
        run: member,
    },
    Check {
        id: "etcd-alarm",
        area: Area::Etcd,
        source: Source::Members,
        read: "alarms, size and quota of each member",
        run: alarm,
    },
    Check {
        id: "etcd-members",
        area: Area::Etcd,
        source: Source::Members,
        read: "etcdctl member list, compared with the cluster file",
        run: members,
    },
    Check {
        id: "etcd-quorum",
        area: Area::Etcd,
        source: Source::Members,
        read: "how many members answer, and whether they have a leader",
        run: quorum,
    },
];

/// Returns what the member of a host answered, or why it did not; `None` without an answer of the host.
fn answer<'a>(seen: &'a Seen, host: &HostName) -> Option<&'a Result<Status, String>> {
    seen.status.get(host)?.etcd.as_ref()
}

/// Returns whether a member that votes knows a leader, and a majority of the members shows that it still follows it: it
/// answers, or confirmed a list of the members. A member keeps the leader that it knew for seconds.
fn has_leader(seen: &Seen) -> bool {
    let hosts = seen.member_hosts();
    let members: Vec<&Status> = hosts
        .iter()
        .filter_map(|host| answer(seen, host)?.as_ref().ok())
        .collect();
    let has_list = |host: &HostName| {
        let answers = seen.status.get(host);
        answers.is_some_and(|answers| answers.etcd_members.is_some())
    };
    let is_confirmed =
        members.len() >= kubexm_etcd::needed(hosts.len()) || hosts.iter().any(has_list);
    is_confirmed && members.iter().any(|member| member.votes_with_a_leader())
}

/// Returns a line of shell that runs etcdctl on the host of a member.
fn etcdctl(seen: &Seen, host: &HostName, words: &str) -> String {
    match seen.cluster.etcd {
        Etcd::Kubeadm { .. } => {
            let line = format!("{} {words}", in_pod(seen, host));
            seen.line.shell(host, &line)
        }
        _ => seen.line.on(host, &format!("{ON_HOST} {words}")),
    }
}

/// Returns the call of etcdctl in the static pod of kubeadm. It listens on the loopback address of the family of the host's
/// first address.
fn in_pod(seen: &Seen, host: &HostName) -> String {
    let spec = seen.cluster.host(host);
    let local = if spec.is_some_and(|spec| spec.internal_address().is_ipv6()) {
        "[::1]"
    } else {
        "127.0.0.1"
    };
    format!(
        "crictl exec $(crictl ps -q --name \"^etcd$\") etcdctl --endpoints https://{local}:{} --cacert \
         /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt --key \
         /etc/kubernetes/pki/etcd/server.key",
        ports::ETCD_CLIENT
    )
}

/// The call of etcdctl for a member that is a systemd unit.
const ON_HOST: &str = "etcdctl";

/// Returns the command that removes all members that have never started.
fn remove_unstarted(seen: &Seen, host: &HostName) -> String {
    let etcdctl = match seen.cluster.etcd {
        Etcd::Kubeadm { .. } => in_pod(seen, host),
        _ => ON_HOST.to_owned(),
    };
    let ids = format!("$({etcdctl} member list | sed -n \"s/, unstarted,.*//p\")");
    seen.line.shell(
        host,
        &format!("for id in {ids}; do {etcdctl} member remove $id; done"),
    )
}

fn disk(seen: &Seen) -> Outcome {
    if seen.member_hosts().is_empty() {
        Outcome::Unknown("kubexm does not run this etcd".to_owned())
    } else {
        // The patterns of logs find it.
        Outcome::Known(Vec::new())
    }
}

fn member(seen: &Seen) -> Outcome {
    let found = seen.problems("etcd-member").map(|problem| {
        let found = Found::of(problem)
            .cause("the API server of the host has no etcd; the cluster keeps its state as long as a majority of members runs");
        let Some(host) = &problem.host else {
            return found;
        };
        match seen.cluster.etcd {
            Etcd::Systemd { .. } => {
                let found = if problem.kind == ProblemKind::Masked { found.run(seen.line.on(host, "systemctl unmask etcd")) } else { found };
                found
                    .fix("start the member; its log has the cause if it ends again")
                    .run(seen.line.on(host, "systemctl start etcd"))
                    .run(seen.line.logs("etcd", host))
            }
            _ => found.run(seen.line.logs("etcd", host)),
        }
    });
    let mut all: Vec<Found> = found.collect();
    // Without any leader, there is a finding about all members.
    if has_leader(seen) {
        all.extend(seen.problems("etcd-quorum").map(|problem| {
            Found::of(problem)
                .cause("other members have a leader, and this one does not reach them: they work without it")
                .fix(format!(
                    "permit TCP port {} between the members; the log of this one names those that it does not reach",
                    ports::ETCD_PEER
                ))
                .likely()
        }));
    }
    Outcome::Known(all)
}

fn alarm(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    let mut full: Option<Found> = None;
    for problem in seen.problems("etcd-alarm") {
        let found = Found::of(problem);
        let Some(host) = &problem.host else {
            continue;
        };
        if problem.kind == ProblemKind::DatabaseFull {
            match &mut full {
                Some(full) => full.hosts.push(host.clone()),
                None => full = Some(found),
            }
        } else if problem.kind == ProblemKind::Alarm {
            all.push(corrupt(seen, host, found));
        } else {
            all.push(
                found
                    .cause("etcd refuses writes when the database reaches its quota")
                    .warning(true)
                    .run(etcdctl(seen, host, "--command-timeout=60s defrag")),
            );
        }
    }
    all.extend(full.map(|found| without_space(seen, found)));
    Outcome::Known(all)
}

/// Adds what an alarm means that is not about space.
fn corrupt(seen: &Seen, host: &HostName, found: Found) -> Found {
    let replace = match seen.cluster.etcd {
        Etcd::Systemd { .. } => "empty its data directory, and let an install add it again",
        _ => "and let `kubexm node replace` make a new one",
    };
    found
        .cause("the data of this member differs from that of the others: etcd refuses every write, so that the API is read-only; restarts may spread the damage")
        .fix(format!(
            "compare the hashes of the members; stop the member whose hash differs, {replace}; then disarm the alarm with `etcdctl alarm disarm`"
        ))
        .run(etcdctl(seen, host, "endpoint hashkv --cluster -w table"))
}

/// Adds how members get space: all of them share a revision and the alarm, and each one has a file.
fn without_space(seen: &Seen, mut found: Found) -> Found {
    let hosts = found.hosts.clone();
    let Some(first) = hosts.first() else {
        return found;
    };
    let revision = "sed \"s/.*\\\"revision\\\":\\([0-9]*\\).*/\\1/\"";
    let compact = match seen.cluster.etcd {
        Etcd::Systemd { .. } => {
            format!("etcdctl compact $(etcdctl endpoint status -w json | {revision})")
        }
        _ => format!(
            "E=\"{}\"; $E compact $($E endpoint status -w json | {revision})",
            in_pod(seen, first)
        ),
    };
    found = found
        .cause("the database reached its quota: etcd refuses every write, so that the API is read-only")
        .fix("delete what filled it, compact the data and defragment each member, disarm the alarm; raise quota-backend-bytes in spec.etcd.extraArgs if it grows again")
        .run(seen.line.shell(first, &compact));
    for host in &hosts {
        found = found.run(etcdctl(seen, host, "--command-timeout=60s defrag"));
    }
    found.run(etcdctl(seen, first, "alarm disarm"))
}

fn members(seen: &Seen) -> Outcome {
    let found = seen.problems("etcd-members").map(|problem| {
        let found = Found::of(problem)
            .cause("each member counts for the majority, also one whose host is gone; a join waits for members that never answer");
        let mut hosts = seen.member_hosts().iter();
        let ready = hosts.find(|host| matches!(answer(seen, host), Some(Ok(_))));
        match ready {
            Some(host) if problem.kind == ProblemKind::MemberNeverStarted => found
                .fix("if no host joins the cluster at present, remove the members that have never started")
                .run(etcdctl(seen, host, "member list -w table"))
                .run(remove_unstarted(seen, host)),
            Some(host) => found.run(etcdctl(seen, host, "member list -w table")),
            None => found,
        }
    });
    Outcome::Known(found.collect())
}

fn quorum(seen: &Seen) -> Outcome {
    let hosts = seen.member_hosts();
    if hosts.is_empty() {
        return Outcome::Unknown("kubexm does not run this etcd".to_owned());
    }
    if hosts.iter().all(|host| answer(seen, host).is_none()) {
        return Outcome::Unknown("no host of a member answers".to_owned());
    }
    if has_leader(seen) {
        return Outcome::Known(Vec::new());
    }
    let answers = |host: &HostName| matches!(answer(seen, host), Some(Ok(_)));
    let silent: Vec<&HostName> = hosts.iter().filter(|host| !answers(host)).collect();
    let answering = hosts.len() - silent.len();
    let (what, down) = match kubexm_etcd::missing_quorum(answering, hosts.len()) {
        // A member that answers runs, and waits for the others.
        Some(what) => (what, silent),
        None => (
            "etcd has no quorum: its members do not elect a leader".to_owned(),
            hosts.iter().collect(),
        ),
    };
    let mut found = Found::new(what)
        .evidence(down.iter().map(|host| match answer(seen, host) {
            Some(Err(error)) => format!("{host}: {error}"),
            Some(Ok(_)) => format!("{host}: has no leader"),
            None => format!("{host}: does not answer"),
        }))
        .cause("no API server can read or write; pods that run go on")
        .fix(
            "start the other members; if their disks are lost, restore all members from a snapshot",
        );
    found.hosts = down.into_iter().cloned().collect();
    for host in &found.hosts.clone() {
        if matches!(seen.cluster.etcd, Etcd::Systemd { .. }) && seen.answers(host) {
            found = found.run(seen.line.on(host, "systemctl start etcd"));
        }
    }
    Outcome::Known(vec![found])
}
