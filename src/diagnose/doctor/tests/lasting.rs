//! Findings that keep conditions from coming true until people change something.

use super::super::report::Finding;
use super::*;
use kubexm_session::Hopeless;

/// Returns where a check keeps conditions from coming true: the hosts, or `dns`.
fn hosts(report: &DoctorReport, check: &str) -> Vec<String> {
    let mut all = report.findings.iter();
    let found = all.find(|found| found.check == check).unwrap();
    match &found.keeps_waiting {
        None => Vec::new(),
        Some(Hopeless::Dns) => vec!["dns".to_owned()],
        Some(Hopeless::Hosts(hosts)) => hosts.iter().map(ToString::to_string).collect(),
    }
}

/// Sets the state of the kubelet of node2.
fn with_kubelet(seen: &mut Seen, active: &str) {
    with_unit(seen, "kubelet.service", active);
}

/// Sets the state of a unit of node2.
fn with_unit(seen: &mut Seen, name_of_unit: &str, active: &str) {
    let unit = Unit {
        load: "loaded".to_owned(),
        active: active.to_owned(),
        sub: String::new(),
        restarts: 0,
    };
    let units = BTreeMap::from([(name_of_unit.to_owned(), unit)]);
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
    let kubelet = "kubelet.service";
    for (unit, active, kind, expected) in [
        (kubelet, "inactive", ProblemKind::Masked, &["node2"][..]),
        (
            "containerd.service",
            "failed",
            ProblemKind::Masked,
            &["node2"],
        ),
        (kubelet, "active", ProblemKind::Masked, &[]),
        (kubelet, "inactive", ProblemKind::Stopped, &[]),
        ("etcd.service", "inactive", ProblemKind::Masked, &[]),
    ] {
        let mut seen = seen(HOST, RUNTIME);
        with_unit(&mut seen, unit, active);
        let problem = Problem::new(About::Unit, format!("{unit} is masked"), "").of_kind(kind);
        let problem = problem.of(Subject::Program(unit.to_owned()));
        let problem = Problem {
            host: Some(name("node2")),
            ..problem
        };
        seen.report.problems.push(problem);
        let report = judge(&seen);
        let what = format!("{unit} is masked");
        let is_it = |found: &&Finding| found.what.contains(&what);
        let found = report.findings.iter().find(is_it).unwrap();
        assert_eq!(
            hosts(&report, found.check),
            expected,
            "{unit} {active} {kind:?}"
        );
    }
}

#[test]
fn settings_of_the_cluster_file_may_permit_what_a_kubelet_refuses() {
    let settings = |seen: &mut Seen, name: &str| {
        seen.cluster.kubernetes.kubelet.extra_config = json!({name: false});
        with_kubelet(seen, "activating");
    };
    let swap = changed(HOST, "", "swap=/swapfile file 1 0 -2");
    let lines = swap.lines().filter(|line| !line.starts_with("kubelet="));
    let without: String = lines.map(|line| format!("{line}\n")).collect();
    // The kubelet has no configuration yet.
    let mut fresh = seen(&without, RUNTIME);
    with_kubelet(&mut fresh, "activating");
    assert!(hosts(&judge(&fresh), "swap").is_empty());
    settings(&mut fresh, "failSwapOn");
    assert!(
        judge(&fresh)
            .findings
            .iter()
            .all(|found| found.check != "swap")
    );
    // It has that of an earlier install.
    let mut former = seen(&swap, RUNTIME);
    settings(&mut former, "failSwapOn");
    assert!(hosts(&judge(&former), "swap").is_empty());
    let mut former = seen(&changed(HOST, "cgroup=", "cgroup=tmpfs"), RUNTIME);
    settings(&mut former, "failCgroupV1");
    assert!(hosts(&judge(&former), "cgroup").is_empty());
}

/// Returns where an image keeps conditions from coming true, with pods, of node2 unless they name another one, that wait for it for these reasons, and no pod of
/// CoreDNS that is ready.
fn without_image(waiting: &[(&str, &str, &str)], change: impl FnOnce(&mut Seen)) -> Vec<String> {
    let pod = |(pod, reason, message): &(&str, &str, &str)| {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        let containers = json!([{"ready": false, "image": "registry.k8s.io/x:1", "state": state}]);
        let status = json!({"phase": "Pending", "containerStatuses": containers});
        let (pod, node) = pod.split_once('@').unwrap_or((pod, "node2"));
        let (namespace, name) = pod.split_once('/').unwrap();
        json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"nodeName": node}, "status": status})
    };
    let pods: Vec<Value> = waiting.iter().map(pod).collect();
    let host: Vec<&str> = HOST
        .lines()
        .filter(|line| !line.starts_with("cni_file="))
        .collect();
    let mut seen = seen(&format!("{}\n", host.join("\n")), RUNTIME);
    let api = seen.api.as_mut().unwrap();
    (api.pods, api.dns) = (objects(json!(pods)), dns("False"));
    with_kubelet(&mut seen, "active");
    change(&mut seen);
    hosts(&judge(&seen), "images")
}

const MISSING: &str = "registry.k8s.io/x:1: not found";
const COREDNS: (&str, &str, &str) = ("kube-system/coredns-1", "ErrImagePull", MISSING);
const FLANNEL: (&str, &str, &str) = ("kube-flannel/kube-flannel-ds-1", "ErrImagePull", MISSING);

#[test]
fn image_that_the_registry_does_not_have_lasts_if_kubexm_waits_for_its_pod() {
    assert_eq!(without_image(&[COREDNS], |_| {}), ["dns"]);
    assert_eq!(without_image(&[FLANNEL], |_| {}), ["node2"]);
    for one in [
        ("kube-system/metrics-server-1", "ErrImagePull", MISSING),
        ("kube-system/kube-proxy-1", "ErrImagePull", MISSING),
        ("shop/coredns-1", "ErrImagePull", MISSING),
        (COREDNS.0, "ErrImagePull", "connection refused"),
        // The image may have come during the back-off.
        (COREDNS.0, "ImagePullBackOff", MISSING),
        (FLANNEL.0, "ImagePullBackOff", MISSING),
    ] {
        assert!(without_image(&[one], |_| {}).is_empty(), "{one:?}");
    }
    // The pod of another node may have got the image since.
    let other = (
        "kube-flannel/kube-flannel-ds-2@node1",
        "ImagePullBackOff",
        MISSING,
    );
    assert_eq!(without_image(&[FLANNEL, other], |_| {}), ["node2"]);
    // What another container says is not about this one.
    let all = [
        (COREDNS.0, "ErrImagePull", "connection refused"),
        ("shop/web-1", "ErrImagePull", MISSING),
    ];
    assert!(without_image(&all, |_| {}).is_empty());
}

#[test]
fn image_does_not_last_where_conditions_come_true_without_it() {
    let ready = |seen: &mut Seen| seen.api.as_mut().unwrap().dns = dns("True");
    assert!(without_image(&[COREDNS], ready).is_empty());
    let unknown = |seen: &mut Seen| seen.api.as_mut().unwrap().dns = Err("refused".to_owned());
    assert!(without_image(&[COREDNS], unknown).is_empty());
    // The pods of a kubelet that does not run say what was.
    for one in [COREDNS, FLANNEL] {
        let stopped = |seen: &mut Seen| with_kubelet(seen, "failed");
        assert!(without_image(&[one], stopped).is_empty(), "{one:?}");
    }
    let configured = |seen: &mut Seen| {
        seen.hosts.insert(name("node2"), about_host(HOST));
    };
    assert!(without_image(&[FLANNEL], configured).is_empty());
}
