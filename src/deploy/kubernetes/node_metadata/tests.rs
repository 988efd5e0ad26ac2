//! Which labels and taints an install sets, and which it leaves.

use super::*;
use kubexm_config::example::{ROLES, text_of};
use serde_json::{Value, json};

fn set(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|item| (*item).to_owned()).collect()
}

fn of_host(fields: &str) -> Desired {
    let text =
        text_of(ROLES, "", "").replace("{name: node1, ", &format!("{{name: node1, {fields} "));
    let cluster = kubexm_config::parse_cluster("example", &text).unwrap();
    desired(&cluster, &cluster.hosts[0])
}

fn live(labels: Value, taints: Value, annotations: Value) -> Live {
    let metadata = json!({"name": "node1", "labels": labels, "annotations": annotations});
    let node = json!({"metadata": metadata, "spec": {"taints": taints}});
    Live::of(serde_json::from_value(node).unwrap())
}

fn registered() -> Live {
    let taint = json!({"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"});
    live(
        json!({"kubernetes.io/os": "linux", CONTROL_PLANE: ""}),
        json!([taint]),
        json!({}),
    )
}

#[test]
fn labels_and_taints_are_set_changed_and_removed() {
    let host = of_host(
        "labels: {disk: ssd, node-role.kubernetes.io/worker: ''}, taints: [gpu=yes:NoSchedule],",
    );
    let changes = difference(&host, &registered());
    assert_eq!(
        changes.labels,
        ["disk=ssd", "node-role.kubernetes.io/worker="]
    );
    assert_eq!(
        changes.taints,
        [
            "gpu=yes:NoSchedule",
            "node-role.kubernetes.io/control-plane:NoSchedule-"
        ]
    );
    assert_eq!(
        changes.annotations,
        [
            "kubexm.io/labels=disk,node-role.kubernetes.io/worker",
            "kubexm.io/taints=gpu:NoSchedule"
        ]
    );
    let set = live(
        json!({CONTROL_PLANE: "", "disk": "ssd", "node-role.kubernetes.io/worker": "", "theirs": "1"}),
        json!([
            {"effect": "NoSchedule", "key": "gpu", "value": "yes"},
            {"effect": "NoExecute", "key": "theirs"},
        ]),
        json!({
            "kubexm.io/labels": "disk,node-role.kubernetes.io/worker",
            "kubexm.io/taints": "gpu:NoSchedule",
        }),
    );
    assert!(difference(&host, &set).is_empty());
    // The cluster file does not state them any more. Labels and taints of others stay.
    let changes = difference(&of_host(""), &set);
    assert_eq!(changes.labels, ["disk-", "node-role.kubernetes.io/worker-"]);
    assert_eq!(
        changes.taints,
        [
            "node-role.kubernetes.io/control-plane:NoSchedule",
            "gpu:NoSchedule-"
        ]
    );
    assert_eq!(
        changes.annotations,
        ["kubexm.io/labels-", "kubexm.io/taints-"]
    );
}

#[test]
fn taints_that_the_cluster_file_does_not_state_stay() {
    let marked = || json!({CONTROL_PLANE: ""});
    let untainted = live(marked(), json!([]), json!({}));
    assert!(difference(&of_host(""), &untainted).is_empty());
    assert!(difference(&of_host(""), &registered()).is_empty());
    // An empty list removes the taint of control planes, and is recorded.
    let none = of_host("taints: [],");
    let changes = difference(&none, &registered());
    assert_eq!(
        changes.taints,
        ["node-role.kubernetes.io/control-plane:NoSchedule-"]
    );
    assert_eq!(changes.annotations, ["kubexm.io/taints=-"]);
    let recorded = live(marked(), json!([]), json!({"kubexm.io/taints": "-"}));
    assert_eq!(recorded.own_taints, Some(set(&[])));
    assert!(difference(&none, &recorded).is_empty());
    let empty = live(marked(), json!([]), json!({"kubexm.io/taints": ""}));
    assert_eq!(empty.own_taints, None);
}

#[test]
fn control_plane_that_registered_again_is_marked() {
    let again = live(json!({}), json!([]), json!({}));
    let changes = difference(&of_host(""), &again);
    assert_eq!(
        changes.labels,
        [CONTROL_PLANE, NO_LOAD_BALANCER].map(|key| format!("{key}="))
    );
    let taint = "node-role.kubernetes.io/control-plane:NoSchedule";
    assert_eq!(changes.taints, [taint]);
    assert!(changes.annotations.is_empty());
    // The cluster file states the taints.
    let none = difference(&of_host("taints: [],"), &again);
    assert!(none.taints.is_empty() && none.labels.len() == 2);
    let worker = Desired::default();
    assert!(difference(&worker, &again).is_empty());
}
