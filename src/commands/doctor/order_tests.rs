//! Tests of the order of findings.

use super::order::{FOLLOWS, explain};
use super::report::Finding;
use crate::doctor::checks;
use crate::doctor::report::{Area, Certainty};
use crate::status::example::cluster;

fn finding(check: &'static str, hosts: &[&str]) -> Finding {
    Finding {
        check,
        area: Area::Hosts,
        hosts: hosts.iter().filter_map(|host| host.parse().ok()).collect(),
        what: String::new(),
        evidence: Vec::new(),
        cause: String::new(),
        certainty: Certainty::Certain,
        fix: String::new(),
        commands: Vec::new(),
        follows: None,
    }
}

#[test]
fn first_cause_of_a_chain_explains_all_that_follow() {
    let mut all = [
        finding("swap", &["node2"]),
        finding("kubelet", &["node2"]),
        finding("node", &["node2"]),
        finding("kubelet", &["node3"]),
        finding("webhooks", &[]),
    ];
    explain(&cluster(""), &mut all);
    let follows = all.map(|found| found.follows);
    assert_eq!(follows, [None, Some("swap"), Some("swap"), None, None]);
}

#[test]
fn members_that_do_not_answer_explain_a_lost_quorum() {
    let mut all = [
        finding("etcd-quorum", &["node1", "node2"]),
        finding("etcd-member", &["node1", "node2"]),
        finding("api-server", &["node3"]),
    ];
    explain(&cluster(""), &mut all);
    let follows = all.map(|found| found.follows);
    assert_eq!(follows, [Some("etcd-member"), None, Some("etcd-member")]);
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
    let ids: Vec<&'static str> = checks().map(|check| check.id).collect();
    let mut all: Vec<Finding> = ids.iter().map(|id| finding(id, &["node1"])).collect();
    explain(&cluster(""), &mut all);
    assert!(all.iter().any(|found| found.follows.is_none()));
}
