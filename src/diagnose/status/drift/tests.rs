//! Problems of hosts that are compared with the plan of an install.

use super::*;
use crate::status::StatusReport;
use crate::status::cluster::judge;
use crate::status::fix::tests::bundle;
use crate::status::tests::healthy;
use kubexm_lifecycle::plan::{Difference, Lost, TaskId};
use kubexm_session::example::Site;
use kubexm_session::example::cluster_of_two as cluster;

fn host(name: &str, reasons: Vec<Reason>) -> HostDiff {
    HostDiff {
        host: name.parse().unwrap(),
        unchanged: 5,
        differences: reasons
            .into_iter()
            .enumerate()
            .map(|(at, reason)| Difference {
                task: TaskId(format!("os/prepare@{name}")),
                id: format!("file /etc/{at}"),
                step: format!("Write /etc/{at}"),
                reason,
            })
            .collect(),
        actions: 1,
        unreachable: None,
    }
}

fn lost_host(name: &str) -> HostDiff {
    HostDiff {
        unreachable: Some(Lost {
            host: name.parse().unwrap(),
            cause: unreachable(name).message(),
        }),
        ..host(name, Vec::new())
    }
}

fn unreachable(name: &str) -> HostError {
    HostError::Unreachable {
        host: name.parse().unwrap(),
        address: "192.0.2.12:22".to_owned(),
        reason: "the connection broke".into(),
    }
}

/// Returns the state of a healthy cluster with these differences, after another change of what was seen.
fn report(drift: Vec<HostDiff>, change: impl FnOnce(&mut Seen<'_>)) -> StatusReport {
    let cluster = cluster("");
    let mut seen = healthy(&cluster);
    seen.drift = Some(drift);
    change(&mut seen);
    judge(&seen)
}

fn text(report: &StatusReport) -> String {
    let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    found.join("\n")
}

fn needed() -> Reason {
    Reason::Needed("differs".to_owned())
}

#[tokio::test]
async fn lost_and_damaged_receipts_are_problems() {
    let site = Site::new();
    site.install("state").await.unwrap();
    assert_eq!(receipts(&site.hosts).await, []);
    let receipt = |host| site.at(host, "var/lib/kubexm/receipt.jsonl");
    std::fs::remove_file(receipt("node1")).unwrap();
    std::fs::write(receipt("node2"), "{\"step\": 1}\n").unwrap();
    let found = receipts(&site.hosts).await;
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found[0].starts_with("node1: has no receipt, "), "{found:?}");
    let damaged =
        "node2: its receipt cannot be used: line 1 of /var/lib/kubexm/receipt.jsonl is damaged: ";
    assert!(found[1].starts_with(damaged), "{found:?}");
    assert_eq!(found.len(), 2);
}

#[test]
fn receipt_that_was_not_read_is_a_problem_of_its_host() {
    let name: HostName = "node2".parse().unwrap();
    let of = |error: HostError| receipt(Err(StepError::Host(error))).unwrap();
    let lost = of(unreachable("node2"));
    assert_eq!(lost.about, About::Unreachable);
    insta::assert_snapshot!(lost, @"
    its receipt was not read: cannot reach 192.0.2.12:22: the connection broke
      hint: run the command again when the host answers
    ");
    let slow = of(HostError::Command {
        host: name.clone(),
        command: "read the receipt".to_owned(),
        reason: "it did not start".into(),
    });
    assert_eq!(slow.about, About::Host);
    insta::assert_snapshot!(slow, @"
    its receipt was not read: read the receipt: it did not start
      hint: run the command again; if it fails again, log in to the host and look for what is slow or broken
    ");
}

#[test]
fn host_that_is_lost_during_the_comparison_is_unreachable() {
    let report = report(vec![lost_host("node2")], |_| {});
    assert!(report.has_unreachable() && !report.has_problems());
    insta::assert_snapshot!(text(&report), @"
    node2: was lost before all of it was compared with the plan of an install: cannot reach 192.0.2.12:22: the connection broke
      hint: run the command again when the host answers
    ");
}

#[test]
fn host_that_was_lost_before_the_comparison_has_one_problem() {
    let name: HostName = "node2".parse().unwrap();
    let in_receipt = report(vec![lost_host("node2")], |seen| {
        let read = receipt(Err(StepError::Host(unreachable("node2"))));
        seen.findings.push(read.unwrap().on(&name));
    });
    assert_eq!(in_receipt.problems.len(), 1, "{}", text(&in_receipt));
    let in_answers = report(vec![lost_host("node2")], |seen| {
        seen.answers.remove(&name);
        seen.errors.push((name.clone(), unreachable("node2")));
    });
    assert_eq!(in_answers.problems.len(), 1, "{}", text(&in_answers));
    let without_facts = report(vec![lost_host("node2")], |seen| {
        let slow = HostError::Command {
            host: name.clone(),
            command: "gather facts".to_owned(),
            reason: "it printed too much".into(),
        };
        seen.facts.remove(&name);
        seen.answers.remove(&name);
        seen.errors.push((name.clone(), slow));
    });
    assert_eq!(without_facts.problems.len(), 1, "{}", text(&without_facts));
}

#[test]
fn what_an_install_would_change_is_a_problem() {
    let depends = Reason::DependsOn(vec![TaskId("a".to_owned())]);
    let unread = || Reason::Unread("task a could not read a value: no answer\nof node9".into());
    let report = report(
        vec![
            host("node1", vec![depends]),
            host("node4", vec![unread(), unread()]),
            host("node2", vec![needed(), needed(), needed(), needed()]),
        ],
        |_| {},
    );
    insta::assert_snapshot!(text(&report), @"
    node4: 2 steps were not compared with the plan of an install: task a could not read a value: no answer
      hint: correct the cause; `kubexm plan --diff` names the steps
    node2: differs from the plan of an install: Write /etc/0; Write /etc/1; Write /etc/2; …
      hint: `kubexm plan --diff` shows the differences, and `kubexm status --fix` removes them
    ");
}

/// A cluster without kubeadm, whose encrypted key nothing opens.
#[test]
fn key_that_is_encrypted_is_not_compared_and_the_hint_names_the_option() {
    let unknown =
        "cannot read the key of the CA: /s/pki/kubernetes/kubernetes.key.age is encrypted";
    let hint = "pass what encrypted it: the identity file with --ca-identity";
    let unread = Reason::Unread(Message::new(unknown).hint(hint));
    let report = report(vec![host("node1", vec![unread])], |_| {});
    insta::assert_snapshot!(text(&report), @"
    node1: one step was not compared with the plan of an install: cannot read the key of the CA: /s/pki/kubernetes/kubernetes.key.age is encrypted
      hint: pass what encrypted it: the identity file with --ca-identity
    ");
}

#[test]
fn check_that_failed_is_not_a_difference() {
    let failed = |text: &str| Reason::Failed(text.into());
    let slow = "check a unit: exceeded the time limit of 30 s";
    let slow = Reason::Failed(Message::new(slow).hint("look at the load"));
    let report = report(
        vec![
            host(
                "node1",
                vec![
                    failed("check a (exit status 75):\nno answer"),
                    needed(),
                    failed("b"),
                ],
            ),
            host("node2", vec![slow]),
        ],
        |_| {},
    );
    assert!(report.has_problems());
    insta::assert_snapshot!(text(&report), @"
    node1: differs from the plan of an install: Write /etc/1
      hint: `kubexm plan --diff` shows the differences, and `kubexm status --fix` removes them
    node1: could not compare Write /etc/0; Write /etc/2 with the plan of an install: check a (exit status 75):
        no answer
      hint: run the command again; if it fails again, correct the cause: `--fix` does not apply a step that was not compared
    node2: could not compare Write /etc/0 with the plan of an install: check a unit: exceeded the time limit of 30 s
      hint: look at the load
    ");
}

#[test]
fn what_an_install_only_reports_is_a_problem() {
    let reported = |text: &str| Reason::Reported(Message::printed(text));
    let report = report(
        vec![host(
            "node1",
            vec![
                reported("flags of etcd are not applied: it has --a\nhint: change them\n"),
                reported("is read only when the node is created: differs\n-a\n+b. Follow x"),
            ],
        )],
        |_| {},
    );
    assert!(report.has_problems());
    insta::assert_snapshot!(text(&report), @"
    node1: Write /etc/0: flags of etcd are not applied: it has --a
      hint: change them
    node1: Write /etc/1: is read only when the node is created: differs
        -a
        +b. Follow x
      hint: do what the text says: neither an install nor `--fix` changes this
    ");
}

#[test]
fn bundle_that_the_hosts_do_not_have_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path(), "example");
    let bundle = Bundle::open(&path).unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    assert_eq!(other_bundle(&state, &bundle), None);
    let installed = |lock: &str| {
        let lines = format!(
            "{{\"event\":\"run\",\"command\":\"install\",\"bundle\":\"{lock}\"}}\n{{\"event\":\"step\"}}\n"
        );
        std::fs::write(state.join("journal.jsonl"), lines).unwrap();
    };
    installed(&bundle.lock_digest().to_string());
    assert_eq!(other_bundle(&state, &bundle), None);
    installed("sha256:0");
    let other = other_bundle(&state, &bundle);
    let report = report(vec![host("node2", vec![needed()])], |seen| {
        seen.other_bundle = other;
    });
    let text = text(&report)
        .replace(&folder.path().display().to_string(), "[folder]")
        .replace(&bundle.lock_digest().to_string(), "[lock]");
    insta::assert_snapshot!(text, @"
    [folder]/example.tar.zst: this is not the bundle that the last command used on this cluster: its lock is [lock], and the journal in [folder]/state has sha256:0
      hint: pass the bundle of the last install or upgrade: the differences to another one are those of an upgrade, and `--fix` refuses it
    node2: differs from the plan of an install: Write /etc/0
      hint: `kubexm plan --diff` shows the differences
    ");
}
