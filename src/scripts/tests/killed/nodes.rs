//! The scripts that remove hosts from a cluster.

use super::super::nodes::{
    ETCDCTL, JOINING, MEMBER, ids, with_control_plane, with_members, with_objects,
};
use super::{Case, call, kill_everywhere, kill_everywhere_and};
use crate::{etcd, kubernetes};

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn removed_nodes() {
    let membership = |check, apply, arguments: &[&str]| Case {
        before: with_members,
        enter: ETCDCTL,
        check: Some(call(etcd::MEMBERSHIP.verb(check), arguments)),
        apply: call(etcd::MEMBERSHIP.verb(apply), arguments),
        undo: vec![],
    };
    kill_everywhere_and(&membership("gone", "remove", &MEMBER), |machine| {
        assert_eq!(ids(machine), "234");
    });
    kill_everywhere_and(&membership("clean", "sweep", &JOINING), |machine| {
        assert_eq!(ids(machine), "23");
    });
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
    kill_everywhere(&node("swept", "sweep"));
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
