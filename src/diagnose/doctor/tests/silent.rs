//! Hosts that do not answer: what was not read is not ok.

use super::*;
use crate::doctor::report::{COMMANDS, TIMERS, UNREACHABLE};

/// Returns a cluster without an answer of these hosts.
fn without(hosts: &[&str]) -> Seen {
    let mut seen = seen(HOST, RUNTIME);
    seen.cluster.etcd = cluster("").etcd;
    seen.report.endpoint.answers.clear();
    // Only a control plane asks the API server.
    if hosts.contains(&"node1") {
        (seen.api, seen.nodes) = (None, None);
    }
    for host in hosts.iter().map(|host| name(host)) {
        seen.facts.remove(&host);
        seen.hosts.remove(&host);
        seen.runtimes.remove(&host);
        seen.ways.remove(&host);
        let what = "cannot reach 192.0.2.11:22: no route to host";
        let problem = problem(About::Unreachable, Some(&host), what);
        seen.report.problems.push(problem);
    }
    seen
}

fn problem(about: About, host: Option<&HostName>, what: &str) -> Problem {
    Problem {
        host: host.cloned(),
        ..Problem::new(about, what, "look")
    }
}

fn verdicts(report: &DoctorReport, verdict: Verdict) -> Vec<&'static str> {
    let checks = report.checks.iter();
    let checks = checks.filter(|check| check.verdict == verdict);
    checks.map(|check| check.check).collect()
}

fn reason<'a>(report: &'a DoctorReport, check: &str) -> Option<&'a str> {
    let mut checks = report.checks.iter();
    checks.find(|known| known.check == check)?.reason.as_deref()
}

#[test]
fn without_any_answer_only_checks_of_this_machine_are_ok() {
    let silent = without(&["node1", "node2"]);
    let mut external = without(&["node1", "node2"]);
    external.cluster.etcd = seen(HOST, RUNTIME).cluster.etcd;
    let mut units = without(&["node1", "node2"]);
    let cluster = kubexm_session::example::cluster_of_units();
    (units.cluster.etcd, units.cluster.kubernetes) = (cluster.etcd, cluster.kubernetes);
    for seen in [silent, external, units] {
        let report = judge(&seen);
        assert_eq!(verdicts(&report, Verdict::Ok), [TIMERS, COMMANDS]);
        assert_eq!(verdicts(&report, Verdict::Problem), [UNREACHABLE]);
        for check in &report.checks {
            let is_unknown = check.verdict == Verdict::Unknown;
            assert_eq!(check.reason.is_some(), is_unknown, "{}", check.check);
        }
        assert!(report.has_unreachable() && !report.has_problems());
    }
}

#[test]
fn problems_of_hosts_without_an_answer_are_findings() {
    let all = [
        (About::Host, "the host does not answer all questions"),
        (About::Identity, "the host belongs to another cluster"),
        (About::Disk, "/ has 2 % free, 9 GiB, for /var/lib/kubelet"),
        (
            About::Certificate,
            "a certificate needs an action (expired): /etc/kubernetes/pki/apiserver.crt",
        ),
        (About::Unit, "kubelet.service is inactive (dead)"),
        (About::Program, "kube-scheduler does not answer: refused"),
        (About::Etcd, "etcd has the alarm NOSPACE"),
        (About::Etcd, "etcd does not answer: refused"),
        (
            About::Etcd,
            "etcd has members that the cluster file does not have: node9",
        ),
        (About::ApiServer, "cannot list the nodes: refused"),
        (About::Registry, "the registry does not answer: refused"),
        (
            About::Version,
            "API servers have the versions 1.35.0 and 1.36.3",
        ),
        (About::Drift, "has no receipt"),
        (About::Timer, "the last run of the timer for backups failed"),
        (About::Command, "an upgrade was interrupted"),
    ];
    let mut seen = without(&["node1", "node2"]);
    let silent = verdicts(&judge(&seen), Verdict::Unknown).len();
    let found = all.map(|(about, what)| {
        let kind = match what {
            "etcd has the alarm NOSPACE" => ProblemKind::DatabaseFull,
            _ => ProblemKind::Other,
        };
        problem(about, Some(&name("node1")), what).of_kind(kind)
    });
    seen.report.problems.extend(found);
    let report = judge(&seen);
    for (_, what) in all {
        let mut findings = report.findings.iter();
        assert!(findings.any(|found| found.what == what), "{what}");
    }
    assert!(verdicts(&report, Verdict::Unknown).len() < silent);
}

#[test]
fn hosts_that_answer_are_checked_without_the_others() {
    let report = judge(&without(&["node1"]));
    let ok = verdicts(&report, Verdict::Ok);
    for check in ["host", "disk-space", "swap", "kubelet", "registry"] {
        assert!(ok.contains(&check), "{check}: {ok:?}");
    }
    for check in ["api-server", "control-plane"] {
        assert_eq!(reason(&report, check), Some("no control plane answers"));
    }
    for check in ["etcd-data", "etcd-member", "etcd-alarm", "etcd-members"] {
        assert_eq!(reason(&report, check), Some("no member of etcd answers"));
    }
    let report = judge(&without(&["node2"]));
    let ok = verdicts(&report, Verdict::Ok);
    for check in ["host", "kubelet", "api-server", "etcd-alarm"] {
        assert!(ok.contains(&check), "{check}: {ok:?}");
    }
}
