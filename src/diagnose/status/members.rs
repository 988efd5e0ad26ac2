//! Judges etcd: what its members report together.

use std::collections::BTreeSet;

use super::Seen;
use super::report::{About, EtcdState, MemberState, Problem, ProblemKind};
use kubexm_config::cluster::{Cluster, Etcd};
use kubexm_etcd::{CORRUPT, Status};

/// A database above this part of its quota, in percent, is a problem. A full etcd refuses writes
/// (<https://etcd.io/docs/latest/op-guide/maintenance/#space-quota>).
const QUOTA_PERCENT: u64 = 80;

/// What helps an etcd without a majority.
const START_OTHERS: &str = "start the other members: more than half of them must run";

/// Judges the members of etcd that answer. Those that do not are problems of their hosts.
pub(super) fn judge(seen: &Seen<'_>, problems: &mut Vec<Problem>) -> EtcdState {
    let cluster = seen.cluster;
    let (kind, expected) = match &cluster.etcd {
        Etcd::Kubeadm { .. } => ("kubeadm", members_of(cluster).len()),
        Etcd::Systemd { .. } => ("systemd", members_of(cluster).len()),
        Etcd::External { endpoints, .. } => ("external", endpoints.len()),
    };
    let mut members = Vec::new();
    let mut clusters = BTreeSet::new();
    let mut listed: Option<&Vec<String>> = None;
    let answering = seen
        .answers
        .values()
        .filter_map(|answers| answers.etcd.as_ref());
    let answering: BTreeSet<u64> = answering.flatten().map(|member| member.id).collect();
    for (host, answers) in &seen.answers {
        let Some(Ok(member)) = &answers.etcd else {
            continue;
        };
        clusters.insert(member.cluster);
        listed = listed.or(answers.etcd_members.as_ref());
        let mut is_healthy = true;
        let mut add = |kind, what: String, hint: &str| {
            is_healthy = false;
            let problem = Problem::new(About::Etcd, what, hint).of_kind(kind);
            problems.push(problem.on(host));
        };
        let is_of_other = |alarm: &String| alarm == CORRUPT && is_of_others(member, &answering);
        for alarm in member.alarms.iter().filter(|alarm| !is_of_other(alarm)) {
            let (kind, hint) = match alarm.as_str() {
                "NOSPACE" => (
                    ProblemKind::DatabaseFull,
                    "compact and defragment etcd, and disarm the alarm: https://etcd.io/docs/latest/op-guide/maintenance/",
                ),
                _ => (
                    ProblemKind::Alarm,
                    "read https://etcd.io/docs/latest/op-guide/data_corruption/ before you restart a member",
                ),
            };
            add(kind, format!("etcd has the alarm {alarm}"), hint);
        }
        if member.leader.is_none() {
            add(
                ProblemKind::NoLeader,
                "etcd has no leader".to_owned(),
                START_OTHERS,
            );
        } else if let Some(error) = member.errors.first() {
            let hint = "read the logs of the members with `kubexm logs etcd`";
            add(ProblemKind::Other, format!("etcd reports '{error}'"), hint);
        }
        if member.is_learner {
            let hint = "promote it with `etcdctl member promote`; `kubexm install` does it where systemd runs etcd";
            add(
                ProblemKind::Members,
                "the member of etcd is a learner, and does not vote".to_owned(),
                hint,
            );
        }
        if let (Some(size), Some(quota)) = (member.size, member.quota)
            && size.saturating_mul(100) > quota.saturating_mul(QUOTA_PERCENT)
        {
            let what = format!(
                "the database of etcd has {} of at most {} MiB",
                size >> 20,
                quota >> 20
            );
            add(
                ProblemKind::DatabaseNearQuota,
                what,
                "defragment etcd one member after another, or raise quota-backend-bytes in spec.etcd.extraArgs",
            );
        }
        members.push(MemberState {
            host: host.clone(),
            version: member.version(),
            is_leader: member.is_leader(),
            is_learner: member.is_learner,
            is_healthy,
            size: member.size,
            size_in_use: member.size_in_use,
            quota: member.quota,
            alarms: member.alarms.iter().cloned().collect(),
        });
    }
    if clusters.len() > 1 {
        let what = "the members of etcd belong to different clusters";
        let hint = "stop the API servers, and restore all members from one snapshot";
        problems.push(Problem::new(About::Etcd, what, hint).of_kind(ProblemKind::Members));
    }
    problems.extend(match listed {
        Some(listed) => other_members(cluster, listed),
        None => without_list(seen),
    });
    EtcdState {
        kind,
        expected,
        members,
    }
}

/// Returns whether the data of other members differs, which all answer and report it themselves.
fn is_of_others(member: &Status, answering: &BTreeSet<u64>) -> bool {
    let known = &member.corrupt;
    !known.is_empty() && !known.contains(&member.id) && known.is_subset(answering)
}

/// Returns the problem of an etcd with a leader that does not answer who its members are. A learner never does, and neither
/// does a member that still knows the leader of a majority that has stopped.
fn without_list(seen: &Seen<'_>) -> Option<Problem> {
    let answers = seen.answers.values();
    let members: Vec<&Status> = answers
        .filter_map(|answers| answers.etcd.as_ref()?.as_ref().ok())
        .collect();
    if !members.iter().any(|member| member.votes_with_a_leader()) {
        return None;
    }
    let count = members_of(seen.cluster).len();
    Some(match kubexm_etcd::missing_quorum(members.len(), count) {
        Some(what) => Problem::new(About::Etcd, what, START_OTHERS).of_kind(ProblemKind::NoLeader),
        None => {
            let what = "etcd has a leader and does not list its members, so that they were not compared with the cluster file";
            let hint = "run the command again; if it fails again, read the logs of the members with `kubexm logs etcd`";
            Problem::new(About::Etcd, what, hint).of_kind(ProblemKind::Members)
        }
    })
}

fn members_of(cluster: &Cluster) -> BTreeSet<&str> {
    let hosts = kubexm_etcd::members(cluster).into_iter();
    hosts.map(|host| host.name.as_str()).collect()
}

/// Compares the members of etcd with those of the cluster file.
fn other_members(cluster: &Cluster, listed: &[String]) -> Option<Problem> {
    let ours = members_of(cluster);
    let theirs: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let shown = |name: &&str| match *name {
        "" => "one that has never started".to_owned(),
        name => name.to_owned(),
    };
    let more: Vec<String> = theirs.difference(&ours).map(shown).collect();
    let missing: Vec<String> = ours.difference(&theirs).map(shown).collect();
    let what = match (more.is_empty(), missing.is_empty()) {
        (true, true) => return None,
        (false, _) => format!(
            "etcd has members that the cluster file does not have: {}",
            more.join(", ")
        ),
        (true, false) => format!("hosts of etcd are not members: {}", missing.join(", ")),
    };
    let hint = "remove members that no host runs with `etcdctl member remove`, and run `kubexm install`: each of them counts \
                for the majority";
    let kind = if theirs.contains("") {
        ProblemKind::MemberNeverStarted
    } else {
        ProblemKind::Members
    };
    Some(Problem::new(About::Etcd, what, hint).of_kind(kind))
}
