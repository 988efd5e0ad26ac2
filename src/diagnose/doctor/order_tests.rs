//! Tests of the order of findings.

use super::check::{Check, Found};
use super::order::{FOLLOWS, explain};
use crate::doctor::checks;
use crate::status::{About, Problem, ProblemKind};
use kubexm_session::example::cluster_of_two as cluster;

type Noted = (&'static Check, Found);

fn noted(check: &str, found: Found) -> Noted {
    (checks().find(|known| known.id == check).unwrap(), found)
}

fn finding(check: &str, hosts: &[&str]) -> Noted {
    let mut found = Found::new("");
    found.hosts = hosts.iter().filter_map(|host| host.parse().ok()).collect();
    noted(check, found)
}

/// Returns what `status` reports about a unit.
fn unit(check: &str, host: &str, what: &str, kind: ProblemKind) -> Noted {
    let problem = Problem {
        host: host.parse().ok(),
        ..Problem::new(About::Unit, what, "").of_kind(kind)
    };
    noted(check, Found::of(&problem))
}

fn in_namespace(check: &str, namespace: &str) -> Noted {
    let (check, mut found) = finding(check, &[]);
    found.namespaces.insert(namespace.to_owned());
    (check, found)
}

fn follows(all: &[Noted]) -> Vec<Option<&'static str>> {
    explain(&cluster(""), all)
}

#[test]
fn first_cause_of_a_chain_explains_all_that_follow() {
    let all = [
        finding("swap", &["node2"]),
        finding("kubelet", &["node2"]),
        finding("node", &["node2"]),
        finding("kubelet", &["node3"]),
        finding("webhooks", &[]),
    ];
    let swap = Some("swap");
    assert_eq!(follows(&all), [None, swap, swap, None, None]);
}

#[test]
fn members_that_do_not_answer_explain_a_lost_quorum() {
    let all = [
        finding("etcd-quorum", &["node1", "node2"]),
        finding("etcd-member", &["node1", "node2"]),
        finding("api-server", &["node3"]),
    ];
    let member = Some("etcd-member");
    assert_eq!(follows(&all), [member, None, member]);
}

#[test]
fn host_that_cannot_be_reached_explains_only_its_own_member() {
    let all = [
        finding("unreachable", &["node1"]),
        finding("etcd-member", &["node1"]),
        finding("etcd-member", &["node2"]),
    ];
    assert_eq!(follows(&all), [None, Some("unreachable"), None]);
}

#[test]
fn warnings_explain_nothing() {
    for (cause, hosts, effect) in [
        ("certificates", ["node1"], finding("pods", &["node2"])),
        ("etcd-alarm", ["node1"], finding("endpoint", &[])),
        ("node", ["node2"], finding("pods", &["node2"])),
        ("disk-space", ["node2"], finding("kubelet", &["node2"])),
    ] {
        let (check, found) = finding(cause, &hosts);
        let all = [(check, found.clone()), effect.clone()];
        assert_eq!(follows(&all), [None, Some(cause)]);
        let all = [(check, found.warning(true)), effect];
        assert_eq!(follows(&all), [None, None], "{cause}");
    }
}

#[test]
fn program_that_was_stopped_is_explained_by_its_own_host_only() {
    let expired = finding("certificates", &["node1"]);
    for (what, kind) in [
        ("kubelet.service is inactive (dead)", ProblemKind::Stopped),
        ("kubelet.service is masked", ProblemKind::Masked),
    ] {
        for (host, cause) in [("node2", None), ("node1", Some("certificates"))] {
            let all = [expired.clone(), unit("kubelet", host, what, kind)];
            assert_eq!(follows(&all), [None, cause], "{what}");
        }
    }
    let failed = "kubelet.service is activating (auto-restart), restarts: 7";
    let all = [
        expired,
        unit("kubelet", "node2", failed, ProblemKind::Restarting),
    ];
    assert_eq!(follows(&all), [None, Some("certificates")]);
}

#[test]
fn pods_explain_only_services_of_their_namespace() {
    for effect in ["webhooks", "api-services"] {
        let all = [
            in_namespace("pods", "shop"),
            in_namespace(effect, "policy"),
            in_namespace(effect, "shop"),
        ];
        assert_eq!(follows(&all), [None, None, Some("pods")]);
    }
}

#[test]
fn node_without_its_own_api_server_is_a_consequence() {
    let all = [
        finding("api-server", &["node2"]),
        finding("node", &["node2"]),
        finding("node", &["node4"]),
    ];
    assert_eq!(follows(&all), [None, Some("api-server"), None]);
}

#[test]
fn rows_name_checks_that_exist() {
    let known: Vec<&str> = checks().map(|check| check.id).collect();
    for (causes, _, effects) in FOLLOWS {
        for name in causes.iter().chain(*effects) {
            assert!(known.contains(name), "{name}");
        }
    }
}

#[test]
fn findings_never_explain_each_other_in_a_circle() {
    let all = checks().map(|check| finding(check.id, &["node1"]));
    let follows = follows(&all.collect::<Vec<_>>());
    assert!(follows.iter().any(Option::is_none));
}
