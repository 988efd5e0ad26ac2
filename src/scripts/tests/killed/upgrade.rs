//! The scripts of an upgrade.

use super::super::rollback::{KUBEADM, with_archive};
use super::super::upgrade::{DRAINED, FIRST, RETURNED, with_kubeadm, with_node};
use super::{Case, call, kill_everywhere as kill_case};
use crate::{kubeadm, kubernetes};

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn upgraded_nodes() {
    kill_case(&Case {
        before: with_kubeadm,
        enter: ":",
        check: Some(call(kubeadm::UPGRADE.verb("check"), &FIRST)),
        apply: call(kubeadm::UPGRADE.verb("apply"), &FIRST),
        undo: vec![],
    });
    kill_case(&Case {
        before: with_node,
        enter: ":",
        check: Some(call(kubernetes::DRAIN.verb("check"), &DRAINED)),
        apply: call(kubernetes::DRAIN.verb("drain"), &DRAINED),
        undo: vec![],
    });
    kill_case(&Case {
        before: |machine| {
            with_node(machine);
            machine.write("/root/fake/kubelet", "v1.36.3");
            machine.write("/root/fake/unschedulable", "");
            machine.write("/var/lib/kubexm/cordoned-node1", "");
        },
        enter: ":",
        check: Some(call(kubernetes::DRAIN.verb("returned"), &RETURNED)),
        apply: call(kubernetes::DRAIN.verb("return"), &RETURNED),
        undo: vec![],
    });
    kill_case(&Case {
        before: with_archive,
        enter: ":",
        check: Some(call(kubernetes::FORMER.verb("check"), &KUBEADM)),
        apply: call(kubernetes::FORMER.verb("apply"), &KUBEADM),
        undo: vec![],
    });
}
