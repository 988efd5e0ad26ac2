//! Pods of runtime classes.

use super::*;
use crate::doctor::Finding;

/// Returns a pod of a class that waits, and a node that reports handlers. The log of the node has a message.
fn found_with(handlers: Value, class: &str, own: &str, log: &[(&str, &str)]) -> Vec<Finding> {
    let mut seen = seen_with(|api| {
        let metadata = json!({"name": "job-1", "namespace": "shop", "creationTimestamp": "2026-01-02T03:00:00Z"});
        let state = json!({"waiting": {"reason": "ContainerCreating"}});
        api.pods = objects(json!([{
            "metadata": metadata,
            "spec": {"nodeName": "node2", "runtimeClassName": class},
            "status": {"phase": "Pending", "containerStatuses": [{"ready": false, "state": state}]},
        }]));
        api.needs = objects(json!([
            {"kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"},
            {"kind": "RuntimeClass", "metadata": {"name": "slow"}, "handler": "runc"},
        ]));
    });
    let status = json!({
        "addresses": [{"address": "192.0.2.12", "type": "InternalIP"}], "runtimeHandlers": handlers,
    });
    let node: Node = serde_json::from_value(json!({"status": status})).unwrap();
    seen.nodes = Some(BTreeMap::from([("node2".to_owned(), node)]));
    let own = format!("containerRuntime: {{runtimes: [{own}]}}");
    seen.cluster.runtime = kubexm_session::example::cluster_with(&own).runtime;
    let entries = log
        .iter()
        .map(|(source, message)| entry(source, 5, message));
    let entries = entries.collect();
    seen.logs.insert(name("node2"), Logs { now: NOW, entries });
    let report = judge(&seen);
    // It explains that the pod waits.
    let found = report.causes();
    found
        .filter(|one| ["runtime-class", "pods"].contains(&one.check))
        .cloned()
        .collect()
}

fn found(handlers: Value, class: &str, own: &str) -> Vec<Finding> {
    found_with(handlers, class, own, &[])
}

const NVIDIA: &str = "{name: nvidia, path: /usr/bin/nvidia-container-runtime}";

#[test]
fn missing_handler_of_a_runtime_class_is_found() {
    let known = json!([{"name": ""}, {"name": "runc"}]);
    let [cause] = &found(known.clone(), "nvidia", NVIDIA)[..] else {
        panic!("a pod without its handler has one cause")
    };
    assert_eq!(cause.check, "runtime-class");
    assert_eq!(
        cause.what,
        "pods of the RuntimeClass nvidia do not start: their nodes do not have the handler nvidia"
    );
    assert_eq!(cause.evidence, ["shop/job-1 on node2"]);
    assert!(
        cause
            .fix
            .starts_with("install /usr/bin/nvidia-container-runtime on these nodes"),
        "{}",
        cause.fix
    );
    let [cause] = &found(known, "nvidia", "")[..] else {
        panic!("the cluster file does not have the class")
    };
    assert!(
        cause
            .fix
            .contains("add nvidia to spec.containerRuntime.runtimes"),
        "{}",
        cause.fix
    );
}

#[test]
fn handlers_that_nodes_have_or_do_not_report_are_no_finding() {
    for (handlers, class) in [
        (json!([{"name": "nvidia"}]), "nvidia"),
        (json!([]), "nvidia"),
        (json!([{"name": "runc"}]), "slow"),
        (json!([{"name": "runc"}]), "unknown"),
    ] {
        let checks: Vec<_> = found(handlers, class, NVIDIA)
            .into_iter()
            .map(|one| one.check)
            .collect();
        assert_eq!(checks, ["pods"], "{class}");
    }
}

/// Earlier kubelets do not report handlers.
#[test]
fn refusals_of_runtimes_are_found_in_logs() {
    for (source, message) in [
        (
            "kubelet",
            "failed to get sandbox runtime: no runtime for \"nvidia\" is configured",
        ),
        (
            "crio",
            "failed to find runtime handler nvidia from runtime list map[runc:0xc0001]",
        ),
        (
            "containerd",
            "failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open log.json: no such file or \
             directory): fork/exec /usr/bin/crun: no such file or directory",
        ),
    ] {
        let found = found_with(json!([]), "nvidia", NVIDIA, &[(source, message)]);
        let checks: Vec<_> = found.iter().map(|one| one.check).collect();
        assert_eq!(checks, ["runtime-class"], "{message}");
    }
}

/// The runtime says the same of a probe or of `kubectl exec` with a program that the image does not have.
#[test]
fn program_that_an_image_does_not_have_is_not_that_of_a_runtime() {
    let message = "failed to exec in container: failed to start exec \"a1\": OCI runtime exec failed: unable to retrieve OCI runtime \
                   error (open /run/containerd/a1/log.json: no such file or directory): runc did not terminate successfully: \
                   exit status 255";
    let found = found_with(json!([]), "slow", NVIDIA, &[("containerd", message)]);
    let checks: Vec<_> = found.iter().map(|one| one.check).collect();
    assert_eq!(checks, ["pods"]);
}
