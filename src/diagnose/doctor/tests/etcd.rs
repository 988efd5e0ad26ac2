//! What members of etcd report together.

use std::collections::BTreeSet;

use super::*;
use crate::status::Answers as StatusAnswers;
use kubexm_etcd::Status;
use kubexm_session::example::cluster_of_four;

fn member(leader: Option<u64>, is_learner: bool) -> Option<Result<Status, String>> {
    Some(Ok(Status {
        id: 1,
        cluster: 1,
        version: "3.6.8".to_owned(),
        leader,
        is_learner,
        applied: 9,
        size: None,
        size_in_use: None,
        quota: None,
        alarms: BTreeSet::new(),
        corrupt: BTreeSet::new(),
        errors: Vec::new(),
    }))
}

/// Returns what doctor finds about the quorum of three members; those without an answer cannot be reached.
fn quorum(answers: [Option<Result<Status, String>>; 3]) -> Option<String> {
    let report = judge(&with_members(answers));
    let mut found = report.findings.into_iter();
    let found = found.find(|found| found.check == "etcd-quorum")?;
    Some(found.what)
}

fn with_members(answers: [Option<Result<Status, String>>; 3]) -> Seen {
    let mut seen = seen(HOST, RUNTIME);
    seen.cluster = cluster_of_four();
    for (host, etcd) in ["node1", "node2", "node3"].into_iter().zip(answers) {
        let answers = StatusAnswers {
            etcd,
            ..StatusAnswers::default()
        };
        seen.status.insert(name(host), answers);
    }
    seen
}

fn refused() -> Option<Result<Status, String>> {
    Some(Err("refused".to_owned()))
}

#[test]
fn member_with_a_leader_proves_a_quorum() {
    let mut listed = with_members([member(Some(7), false), None, None]);
    let answers = listed.status.get_mut(&name("node1")).unwrap();
    answers.etcd_members = Some(vec!["node1".to_owned()]);
    let report = judge(&listed);
    assert!(
        report
            .findings
            .iter()
            .all(|found| found.check != "etcd-quorum")
    );
    let found = quorum([member(Some(7), false), refused(), member(None, false)]);
    assert_eq!(found, None);
    assert_eq!(quorum([None, None, None]), None);
}

#[test]
fn members_without_a_leader_have_no_quorum() {
    for (answers, what) in [
        (
            [member(None, false), refused(), refused()],
            "etcd has no quorum: 1 of 3 members answer, and 2 are necessary",
        ),
        // A member keeps the leader that it knew for seconds, a learner for as long as it runs.
        (
            [member(Some(7), false), refused(), refused()],
            "etcd has no quorum: 1 of 3 members answer, and 2 are necessary",
        ),
        (
            [member(Some(7), true), refused(), None],
            "etcd has no quorum: 1 of 3 members answer, and 2 are necessary",
        ),
        (
            [member(None, false), member(None, false), refused()],
            "etcd has no quorum: its members do not elect a leader",
        ),
    ] {
        assert_eq!(quorum(answers).as_deref(), Some(what));
    }
}

#[test]
fn member_that_does_not_reach_the_others_is_found() {
    let mut seen = with_members([member(Some(7), false), member(None, false), None]);
    let problem = Problem::new(About::Etcd, "etcd has no leader", "").on(&name("node2"));
    let problems = &mut seen.report.problems;
    problems.push(problem.of_kind(ProblemKind::NoLeader));
    let report = judge(&seen);
    let mut found = report.causes();
    let found = found.find(|found| found.check == "etcd-member").unwrap();
    assert_eq!(found.hosts, [name("node2")]);
}
