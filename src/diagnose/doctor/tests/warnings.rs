//! What still works, and so explains no failure.

use super::*;
use crate::status::{DiskState, InodeState};
use kubexm_safekeeping::certs::Standing;

fn problem(about: About, host: &str, what: &str, hint: &str) -> Problem {
    Problem::new(about, what, hint).on(&name(host))
}

fn certificates(standing: Standing, paths: &[&str], has_ca: bool) -> Problem {
    let subject = Subject::Certificates {
        standing,
        paths: paths.iter().map(ToString::to_string).collect(),
        has_ca,
    };
    problem(
        About::Certificate,
        "node1",
        "certificates need an action",
        "",
    )
    .of(subject)
}

/// Returns the causes of a cluster whose node2 has a kubelet that ends and a pod that crashes.
fn causes_with(change: impl FnOnce(&mut Seen)) -> Vec<&'static str> {
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "m"}});
    let containers = json!([{"ready": false, "image": "x:1", "state": waiting}]);
    let status = json!({"phase": "Running", "containerStatuses": containers});
    let mut seen = seen_with(|api| api.pods = pod("web-1", "2026-01-02T02:00:00Z", status));
    change(&mut seen);
    causes(&judge(&seen))
}

#[test]
fn certificates_that_expire_soon_and_cordons_do_not_hide_failures() {
    let ends = "kubelet.service is activating (auto-restart), restarts: 7";
    for (standing, expected) in [
        (Standing::ExpiresSoon, &["certificates", "kubelet"][..]),
        (Standing::Expired, &["certificates"]),
    ] {
        let causes = causes_with(|seen| {
            let problems = &mut seen.report.problems;
            let path = "/etc/kubernetes/pki/apiserver.crt";
            problems.push(certificates(standing, &[path], false));
            let kubelet = Subject::Program("kubelet.service".to_owned());
            let ends = problem(About::Unit, "node2", ends, "").of(kubelet);
            problems.push(ends.of_kind(ProblemKind::Restarting));
        });
        assert_eq!(causes, expected);
    }
    let cordoned = "the node is cordoned: no new pods run on it";
    let causes = causes_with(|seen| {
        let problems = &mut seen.report.problems;
        let cordoned = problem(About::Node, "node2", cordoned, "");
        problems.push(cordoned.of_kind(ProblemKind::Cordoned));
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
        let low = problem(About::Disk, "node2", what, "");
        problems.push(low.of(Subject::Mount("/".to_owned())));
    };
    let evicts = "the node reports DiskPressure: kubelet has disk pressure";
    let few = causes_with(|seen| low(seen, 9 << 30));
    assert_eq!(few, ["disk-space", "pods"]);
    assert_eq!(causes_with(|seen| low(seen, 1 << 20)), ["disk-space"]);
    let causes = causes_with(|seen| {
        low(seen, 9 << 30);
        let problems = &mut seen.report.problems;
        let evicts = problem(About::Node, "node2", evicts, "");
        problems.push(evicts.of_kind(ProblemKind::DiskPressure));
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
            seen.hosts.insert(name("node2"), about_host(&host));
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
            let few = problem(About::Disk, "node2", what, "").of_kind(ProblemKind::Inodes);
            problems.push(few.of(Subject::Mount("/srv".to_owned())));
        });
        assert_eq!(causes, expected);
    }
}

#[test]
fn certificates_of_authorities_are_not_renewed_but_replaced() {
    for (has_ca, paths, command) in [
        (
            false,
            &["/etc/kubernetes/pki/apiserver.crt"][..],
            "kubexm certs renew -f",
        ),
        (
            true,
            &["/etc/kubernetes/pki/ca.crt", "/etc/kubexm/registry-ca.crt"],
            "kubexm certs rotate-ca -f",
        ),
        (
            true,
            &["/etc/kubexm/registry-ca.crt"],
            "kubexm certs rotate-ca --ca registry -f",
        ),
        (
            true,
            &["/etc/kubexm/registries/site.example.com/ca.crt"],
            "kubexm install --bundle BUNDLE -f",
        ),
    ] {
        for (standing, refused) in [(Standing::ExpiresSoon, false), (Standing::Expired, true)] {
            let mut seen = seen(HOST, RUNTIME);
            let problems = &mut seen.report.problems;
            problems.push(certificates(standing, paths, has_ca));
            let report = judge(&seen);
            let mut found = report.findings.iter();
            let found = found.find(|found| found.check == "certificates").unwrap();
            let last = found.commands.last().unwrap();
            assert!(last.starts_with(command), "{paths:?}: {last}");
            assert_eq!(found.cause.contains("refuse"), refused, "{}", found.cause);
        }
    }
}

/// Preflight finds it, too, and `status` reports it.
#[test]
fn what_the_next_boot_changes_has_a_check() {
    for (line, check) in [
        (
            "swap_setting=/etc/waagent.conf:ResourceDisk.EnableSwap=y",
            "swap",
        ),
        ("masked_unit=systemd-sysctl.service", "kernel-settings"),
        (
            "noauto_mount=/data / ext4 /dev/sdb1 rw /var/lib/kubelet",
            "file-systems",
        ),
    ] {
        let report = judge(&seen(&changed(HOST, "", line), RUNTIME));
        assert_eq!(causes(&report), [check], "{line}");
    }
}
