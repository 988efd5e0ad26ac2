//! The scripts of an upgrade.

use super::super::drain::with_node;
use super::super::machine::Machine;
use super::super::rollback::{KUBEADM, with_archive};
use super::super::runtime::{ends, with_pods};
use super::super::upgrade::{FIRST, with_kubeadm};
use super::{Case, call, commands, kill_everywhere as kill_case, only_lists, run};
use crate::runtime::{CONTAINERD_PODS, CONTAINERD_SHIMS};
use crate::{Script, kubeadm, kubernetes};

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
        check: Some(call(kubernetes::DRAIN.verb("cordoned"), &["node1"])),
        apply: call(kubernetes::DRAIN.verb("cordon"), &["node1"]),
        undo: vec![],
    });
    kill_case(&Case {
        before: |machine| {
            with_node(machine);
            machine.write("/root/fake/unschedulable", "");
            machine.write("/var/lib/kubexm/cordoned-node1", "");
        },
        enter: ":",
        check: None,
        apply: call(kubernetes::DRAIN.verb("uncordon"), &["node1"]),
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

/// Wherever the end of pods is killed, the next run ends the others, and its kubelet runs again; so does the kubelet of a node
/// that the next run does not change.
#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn ended_pods() {
    if only_lists([CONTAINERD_PODS, CONTAINERD_SHIMS]) {
        return;
    }
    let of = |verb| call(CONTAINERD_PODS.verb(verb), &[]);
    let killed = |script: Script, prepare: fn(&Machine), at| {
        let machine = Machine::new("bash");
        prepare(&machine);
        let was_killed = run(&machine, ":", &call(script, &["2.3.7"]), Some(at));
        was_killed.then_some(machine)
    };
    let next_run = |machine: &Machine, at| {
        for end in ends() {
            let ended = machine.run(CONTAINERD_SHIMS.verb("ended"), &["2.3.7"]);
            if ended.status != 0 {
                run(machine, ":", &call(end, &["2.3.7"]), None);
            }
        }
        // The step that installs the new one starts it.
        machine.write("/root/fake/version", "v2.3.7");
        machine.write("/root/fake/containerd.service.active", "");
        for [check, apply] in [["started", "start"], ["settled", "settle"]] {
            if machine.run(CONTAINERD_PODS.verb(check), &[]).status != 0 {
                run(machine, ":", &of(apply), None);
            }
        }
        let pods = std::fs::read_dir(machine.at("/root/fake/pods")).unwrap();
        assert_eq!(pods.count(), 0, "killed at command {at}");
        is_complete(machine, at);
    };
    let [end_pods, end_shims] = ends();
    let without_pods: fn(&Machine) = |machine| {
        with_pods(machine);
        machine.done(CONTAINERD_PODS.verb("end"), &[]);
    };
    for (end, prepare) in [
        (end_pods, with_pods as fn(&Machine)),
        (end_shims, without_pods),
    ] {
        let mut kills = 0;
        for at in commands() {
            let Some(machine) = killed(end, prepare, at) else {
                break;
            };
            kills += 1;
            next_run(&machine, at);
            let Some(held) = killed(end, prepare, at) else {
                break;
            };
            run(&held, ":", &of("resume"), None);
            run(&held, ":", &of("settle"), None);
            is_complete(&held, at);
        }
        assert!(kills > 1, "killed {kills} times");
    }
    let ended: fn(&Machine) = |machine| {
        with_pods(machine);
        for end in ends() {
            machine.done(end, &["2.3.7"]);
        }
    };
    let started: fn(&Machine) = |machine| {
        with_pods(machine);
        for end in ends() {
            machine.done(end, &["2.3.7"]);
        }
        machine.done(CONTAINERD_PODS.verb("start"), &[]);
    };
    for (verb, prepare) in [("start", ended), ("resume", ended), ("settle", started)] {
        for at in commands() {
            let Some(machine) = killed(CONTAINERD_PODS.verb(verb), prepare, at) else {
                break;
            };
            next_run(&machine, at);
        }
    }
}

/// Asserts that the kubelet and containerd run, and that nothing of a run is left.
fn is_complete(machine: &Machine, at: usize) {
    for unit in ["kubelet.service", "containerd.service"] {
        let is_active = machine.has(&format!("/root/fake/{unit}.active"));
        assert!(is_active, "{unit}: killed at command {at}");
    }
    for left in [
        "/var/lib/kubexm/pods-ended",
        "/root/fake/kubexm-pods.timer.active",
    ] {
        assert!(!machine.has(left), "{left}: killed at command {at}");
    }
}
