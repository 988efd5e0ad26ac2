//! Findings that keep conditions from coming true until people change something.

use super::*;

/// Returns the hosts on which a check keeps conditions from coming true.
fn hosts(report: &DoctorReport, check: &str) -> Vec<String> {
    let mut all = report.findings.iter();
    let found = all.find(|found| found.check == check).unwrap();
    found
        .keeps_waiting
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Sets the state of the kubelet of node2.
fn with_kubelet(seen: &mut Seen, active: &str) {
    let unit = Unit {
        load: "loaded".to_owned(),
        active: active.to_owned(),
        sub: String::new(),
        restarts: 0,
    };
    let units = BTreeMap::from([("kubelet.service".to_owned(), unit)]);
    let answers = status::Answers {
        units,
        ..status::Answers::default()
    };
    seen.status.insert(name("node2"), answers);
}

#[test]
fn what_only_a_start_needs_lasts_while_the_kubelet_does_not_run() {
    for (old, new, check) in [
        ("", "swap=/swapfile file 1 0 -2", "swap"),
        ("cgroup=", "cgroup=tmpfs", "cgroup"),
        (
            "mount=",
            "mount=/var/lib/kubelet ro,relatime",
            "mount-options",
        ),
    ] {
        let mut seen = seen(&changed(HOST, old, new), RUNTIME);
        assert!(hosts(&judge(&seen), check).is_empty(), "{check}");
        with_kubelet(&mut seen, "active");
        assert!(hosts(&judge(&seen), check).is_empty(), "{check}");
        with_kubelet(&mut seen, "activating");
        assert_eq!(hosts(&judge(&seen), check), ["node2"], "{check}");
    }
    let mut seen = seen(&changed(HOST, "mount=", "mount=/usr/local/bin ro"), RUNTIME);
    with_kubelet(&mut seen, "failed");
    assert!(hosts(&judge(&seen), "mount-options").is_empty());
}

#[test]
fn masked_unit_that_does_not_run_lasts() {
    for (active, kind, expected) in [
        ("inactive", ProblemKind::Masked, &["node2"][..]),
        ("active", ProblemKind::Masked, &[]),
        ("inactive", ProblemKind::Stopped, &[]),
    ] {
        let mut seen = seen(HOST, RUNTIME);
        with_kubelet(&mut seen, active);
        let problem = Problem::new(About::Unit, "kubelet.service is masked", "").of_kind(kind);
        let problem = problem.of(Subject::Program("kubelet.service".to_owned()));
        let problem = Problem {
            host: Some(name("node2")),
            ..problem
        };
        seen.report.problems.push(problem);
        assert_eq!(
            hosts(&judge(&seen), "kubelet"),
            expected,
            "{active} {kind:?}"
        );
    }
}

#[test]
fn image_that_the_registry_does_not_have_lasts_if_kubexm_waits_for_its_pod() {
    let of = |pod: &str, message: &str| {
        let state = json!({"waiting": {"reason": "ImagePullBackOff", "message": message}});
        let containers = json!([{"ready": false, "image": "registry.k8s.io/x:1", "state": state}]);
        let status = json!({"phase": "Pending", "containerStatuses": containers});
        let (namespace, name) = pod.split_once('/').unwrap();
        let pod = json!([{"metadata": {"namespace": namespace, "name": name}, "spec": {"nodeName": "node2"}, "status": status}]);
        hosts(&judge(&seen_with(|api| api.pods = objects(pod))), "images")
    };
    let missing = "registry.k8s.io/x:1: not found";
    assert_eq!(of("kube-system/coredns-1", missing), ["node1", "node2"]);
    assert_eq!(of("kube-flannel/kube-flannel-ds-1", missing), ["node2"]);
    for (pod, message) in [
        ("kube-system/metrics-server-1", missing),
        ("shop/coredns-1", missing),
        ("kube-system/coredns-1", "connection refused"),
    ] {
        assert!(of(pod, message).is_empty(), "{pod}: {message}");
    }
}
