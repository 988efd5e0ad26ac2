//! The scripts of a restore.

use super::super::backup::{MEMBER, PODS, archive, with_member, with_runtime};
use super::super::pod_network::{BRIDGE, FLANNEL, with_bridge};
use super::{Case, call, kill_everywhere as kill_case, with};
use crate::etcd::RESTORE;
use crate::kubeadm::AUTHORITIES;
use crate::kubernetes::CONTROL_PLANE;
use crate::network::{FLANNEL_RESTART, POD_BRIDGE};

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn restores() {
    for (check, apply) in [
        ("prepared", "prepare"),
        ("replaced", "replace"),
        ("tidy", "remove"),
    ] {
        kill_case(&Case {
            before: |machine| {
                with_member(machine);
                machine.write(
                    "/var/lib/etcd/restore-20260131T093000Z/member/wal/0.wal",
                    "new",
                );
            },
            enter: ":",
            check: Some(call(RESTORE.verb(check), &MEMBER)),
            apply: call(RESTORE.verb(apply), &MEMBER),
            undo: vec![],
        });
    }
    let units = ["r1", "systemd", "kubelet"];
    for (check, apply, arguments) in [
        ("stopped", "stop", &PODS[..]),
        ("started", "start", &["r1", "kubeadm", "etcd"]),
        ("restarted", "restart", &units),
    ] {
        kill_case(&Case {
            before: |machine| {
                with_runtime(machine);
                machine.write("/etc/kubernetes/manifests/kube-apiserver.yaml", "kind: Pod");
                machine.write("/etc/kubernetes/manifests/kube-scheduler.yaml", "kind: Pod");
                machine.write("/var/lib/kubexm/restore/manifests/etcd.yaml", "kind: Pod");
            },
            enter: ":",
            check: Some(call(CONTROL_PLANE.verb(check), arguments)),
            apply: call(CONTROL_PLANE.verb(apply), arguments),
            undo: vec![],
        });
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn pod_subnets() {
    for (script, check, apply, arguments) in [
        (POD_BRIDGE, "cleared", "clear", &["r1"][..]),
        (POD_BRIDGE, "follows", "follow", &BRIDGE),
        (FLANNEL_RESTART, "follows", "restart", &FLANNEL),
    ] {
        kill_case(&Case {
            before: |machine| with_bridge(machine, "10.244.4.1/24"),
            enter: ":",
            check: Some(call(script.verb(check), arguments)),
            apply: call(script.verb(apply), arguments),
            undo: vec![],
        });
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn authorities() {
    const NAMES: [&str; 6] = [
        "ca.crt",
        "ca.key",
        "front-proxy-ca.crt",
        "front-proxy-ca.key",
        "sa.key",
        "sa.pub",
    ];
    let input: &'static str = Box::leak(archive(&NAMES).into_boxed_str());
    kill_case(&Case {
        before: |_| (),
        enter: ":",
        check: Some(call(AUTHORITIES.verb("check"), &NAMES)),
        apply: with(AUTHORITIES.verb("apply"), &NAMES, input),
        undo: vec![],
    });
}
