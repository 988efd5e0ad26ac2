//! What still works, and so explains no failure.

use super::*;
use crate::status::{DiskState, InodeState};

fn problem(about: About, host: &str, what: &str, hint: &str) -> Problem {
    Problem {
        about,
        host: Some(name(host)),
        what: what.to_owned(),
        hint: hint.to_owned(),
    }
}

/// Returns the causes of a cluster whose node2 has a kubelet that ends and a pod that crashes.
fn causes_with(change: impl FnOnce(&mut Seen)) -> Vec<&'static str> {
    let pod = "pod=shop/web-1\tnode2\tRunning\t2026-01-02T02:00:00Z\t[]\t\
        [{\"ready\":false,\"image\":\"x:1\",\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\",\"message\":\"m\"}}}]\t";
    let mut seen = seen(HOST, RUNTIME, &changed(API, "", pod));
    change(&mut seen);
    causes(&judge(&seen))
}

#[test]
fn certificates_that_expire_soon_and_cordons_do_not_hide_failures() {
    let soon = "a certificate needs an action (expires soon): /etc/kubernetes/pki/apiserver.crt";
    let expired = soon.replace("expires soon", "expired");
    let ends = "kubelet.service is activating (auto-restart), restarts: 7";
    for (certificate, expected) in [
        (soon, &["certificates", "kubelet"][..]),
        (&expired, &["certificates"]),
    ] {
        let causes = causes_with(|seen| {
            let problems = &mut seen.report.problems;
            problems.push(problem(About::Certificate, "node1", certificate, ""));
            problems.push(problem(About::Unit, "node2", ends, ""));
        });
        assert_eq!(causes, expected);
    }
    let cordoned = "the node is cordoned: no new pods run on it";
    let causes = causes_with(|seen| {
        let problems = &mut seen.report.problems;
        problems.push(problem(About::Node, "node2", cordoned, ""));
    });
    assert_eq!(causes, ["node", "pods"]);
}

#[test]
fn disk_explains_failures_if_it_is_full_or_the_node_evicts_pods() {
    let low = |seen: &mut Seen, free: u64| {
        seen.report.hosts[1].disks.push(DiskState {
            mount: "/".to_owned(),
            directories: Vec::new(),
            free,
            size: 100 << 30,
            inodes: None,
        });
        let what = "/ has 9 % free, 9 GiB, for /var/lib/kubelet";
        let problems = &mut seen.report.problems;
        problems.push(problem(About::Disk, "node2", what, ""));
    };
    let evicts = "the node reports DiskPressure: kubelet has disk pressure";
    let few = causes_with(|seen| low(seen, 9 << 30));
    assert_eq!(few, ["disk-space", "pods"]);
    assert_eq!(causes_with(|seen| low(seen, 1 << 20)), ["disk-space"]);
    let causes = causes_with(|seen| {
        low(seen, 9 << 30);
        let problems = &mut seen.report.problems;
        problems.push(problem(About::Node, "node2", evicts, ""));
    });
    assert_eq!(causes, ["disk-space"]);
    // A program could not write a moment ago.
    let causes = causes_with(|seen| {
        low(seen, 9 << 30);
        let entries = vec![entry("containerd", 9, "write /x: no space left on device")];
        seen.logs.insert(name("node2"), Logs { now: NOW, entries });
    });
    assert_eq!(causes, ["disk-space"]);
}

#[test]
fn inodes_explain_failures_if_none_is_left() {
    for (free, expected) in [(400, &["inodes", "pods"][..]), (40, &["inodes"])] {
        let causes = causes_with(|seen| {
            let line = format!("inodes=/var/lib/kubelet {free} 100000 /");
            let host = changed(HOST, "inodes=", &line);
            let answers = Answers::parse(&host, answers::HOST).unwrap();
            seen.hosts.insert(name("node2"), answers);
        });
        assert_eq!(causes, expected);
        // `status` looks at further directories.
        let causes = causes_with(|seen| {
            seen.report.hosts[1].disks.push(DiskState {
                mount: "/srv".to_owned(),
                directories: Vec::new(),
                free: 1 << 40,
                size: 1 << 40,
                inodes: Some(InodeState {
                    free,
                    total: 100_000,
                }),
            });
            let what = "/srv has 0 % of its inodes free";
            let problems = &mut seen.report.problems;
            problems.push(problem(About::Disk, "node2", what, ""));
        });
        assert_eq!(causes, expected);
    }
}

#[test]
fn certificates_of_authorities_are_not_renewed_but_replaced() {
    let leaf = "run `kubexm certs renew`";
    let ca = "replace CAs with `kubexm certs rotate-ca`";
    for (hint, path, command) in [
        (
            leaf,
            "/etc/kubernetes/pki/apiserver.crt",
            "kubexm certs renew -f",
        ),
        (
            ca,
            "/etc/kubernetes/pki/ca.crt, /etc/kubexm/registry-ca.crt",
            "kubexm certs rotate-ca -f",
        ),
        (
            ca,
            "/etc/kubexm/registry-ca.crt",
            "kubexm certs rotate-ca --ca registry -f",
        ),
        (
            ca,
            "/etc/kubexm/registries/site.example.com/ca.crt",
            "kubexm install BUNDLE -f",
        ),
    ] {
        for (standing, refused) in [("expires soon", false), ("expired", true)] {
            let mut seen = seen(HOST, RUNTIME, API);
            let what = format!("a certificate needs an action ({standing}): {path}");
            let problems = &mut seen.report.problems;
            problems.push(problem(About::Certificate, "node1", &what, hint));
            let report = judge(&seen);
            let mut found = report.findings.iter();
            let found = found.find(|found| found.check == "certificates").unwrap();
            let last = found.commands.last().unwrap();
            assert!(last.starts_with(command), "{path}: {last}");
            assert_eq!(found.cause.contains("refuse"), refused, "{}", found.cause);
        }
    }
}
