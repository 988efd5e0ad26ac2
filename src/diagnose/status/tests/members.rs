//! What needs attention about members of etcd.

use super::*;

#[test]
fn alarm_about_other_data_is_one_of_its_member() {
    let alarmed = |id: u64, of: u64| Status {
        id,
        alarms: ["CORRUPT".to_owned()].into(),
        corrupt: [of].into(),
        ..member()
    };
    for (of, hosts) in [(1, vec!["node1"]), (9, vec!["node1", "node2"])] {
        let found = problems(|seen| {
            answers(seen, "node1").etcd = Some(Ok(alarmed(1, of)));
            answers(seen, "node2").etcd = Some(Ok(alarmed(2, of)));
        });
        let named = found.lines().filter(|line| line.contains("CORRUPT"));
        let named: Vec<&str> = named.filter_map(|line| line.split(':').next()).collect();
        assert_eq!(named, hosts, "{found}");
    }
}

#[test]
fn members_of_etcd_need_attention() {
    let found = problems(|seen| {
        answers(seen, "node1").etcd = Some(Ok(Status {
            alarms: ["NOSPACE".to_owned()].into(),
            size: Some(7 << 30),
            leader: None,
            is_learner: true,
            ..member()
        }));
        let names = vec!["node1".to_owned(), String::new(), "node7".to_owned()];
        answers(seen, "node1").etcd_members = Some(names);
    });
    insta::assert_snapshot!(found, @"
    node1: etcd has the alarm NOSPACE
      hint: compact and defragment etcd, and disarm the alarm: https://etcd.io/docs/latest/op-guide/maintenance/
    node1: etcd has no leader
      hint: start the other members: more than half of them must run
    node1: the member of etcd is a learner, and does not vote
      hint: promote it with `etcdctl member promote`; `kubexm install` does it where systemd runs etcd
    node1: the database of etcd has 7168 of at most 8192 MiB
      hint: defragment etcd one member after another, or raise quota-backend-bytes in spec.etcd.extraArgs
    etcd has members that the cluster file does not have: one that has never started, node7
      hint: remove members that no host runs with `etcdctl member remove`, and run `kubexm install`: each of them counts for the majority
    ");
    let failed =
        problems(|seen| answers(seen, "node1").etcd = Some(Err("no container".to_owned())));
    assert!(
        failed.starts_with("node1: etcd does not answer: no container\n"),
        "{failed}"
    );
}

#[test]
fn etcd_that_does_not_list_its_members_is_a_problem() {
    let found = problems(|seen| answers(seen, "node1").etcd_members = None);
    insta::assert_snapshot!(found, @"
    etcd has a leader and does not list its members, so that they were not compared with the cluster file
      hint: run the command again; if it fails again, read the logs of the members with `kubexm logs etcd`
    ");
    // Another member does.
    let found = problems(|seen| answers(seen, "node2").etcd = Some(Ok(member())));
    assert_eq!(found, "");
    // The problem of the leader, and that of the learner, are the cause.
    let leaderless = Status {
        leader: None,
        ..member()
    };
    let learner = Status {
        is_learner: true,
        ..member()
    };
    for member in [leaderless, learner] {
        let found = problems(|seen| {
            answers(seen, "node1").etcd = Some(Ok(member));
            answers(seen, "node1").etcd_members = None;
        });
        assert!(!found.contains("does not list"), "{found}");
    }
}

#[test]
fn member_that_knows_the_leader_of_a_stopped_majority_has_no_quorum() {
    let cluster = kubexm_session::example::cluster_of_four();
    let mut seen = healthy(&cluster);
    for answers in seen.answers.values_mut() {
        answers.etcd_members = None;
    }
    for stopped in ["node2", "node3"] {
        answers(&mut seen, stopped).etcd = Some(Err("refused".to_owned()));
    }
    let problems = super::super::cluster::judge(&seen).problems;
    let of_etcd = |kind| problems.iter().find(|problem| problem.kind == kind);
    let found = of_etcd(ProblemKind::NoLeader).map(|problem| problem.what.as_str());
    assert_eq!(
        found,
        Some("etcd has no quorum: 1 of 3 members answer, and 2 are necessary")
    );
    assert!(of_etcd(ProblemKind::Members).is_none(), "{problems:?}");
}
