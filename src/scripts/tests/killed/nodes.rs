//! The scripts that remove hosts from a cluster.

use super::super::nodes::{with_control_plane, with_objects};
use super::{Case, call, kill_everywhere};
use crate::kubernetes;

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn removed_nodes() {
    let node = |check, apply| Case {
        before: with_objects,
        enter: ":",
        check: Some(call(
            kubernetes::NODE_REMOVE.verb(check),
            &["node1", "lost"],
        )),
        apply: call(kubernetes::NODE_REMOVE.verb(apply), &["node1", "lost"]),
        undo: vec![],
    };
    kill_everywhere(&node("check", "delete"));
    for kind in ["kubeadm", "systemd"] {
        kill_everywhere(&Case {
            before: with_control_plane,
            enter: ":",
            check: Some(call(
                kubernetes::CONTROL_PLANE_STOP.verb("stopped"),
                &[kind],
            )),
            apply: call(kubernetes::CONTROL_PLANE_STOP.verb("stop"), &[kind]),
            undo: vec![],
        });
    }
}
