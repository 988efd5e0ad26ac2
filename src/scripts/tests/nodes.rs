//! Scripts that remove hosts from a cluster. The programs are stand-ins.

use super::machine::Machine;
use crate::kubernetes::{CONTROL_PLANE_STOP, NODE_REMOVE};

/// Adds a cluster with the node node1 and its pods. kubectl keeps the objects as files.
pub(super) fn with_objects(machine: &Machine) {
    for object in ["node", "pods"] {
        machine.write(&format!("/root/objects/{object}"), "");
    }
    machine.write("/var/lib/kubexm/cordoned-node1", "");
    machine.fake(
        "kubectl",
        "cd /root/objects\n\
         case $* in\n\
         *'get node node1'*) [ ! -e node ] || echo node/node1 ;;\n\
         *'delete node '*) rm -f node ;;\n\
         *'delete pods '*) rm -f pods ;;\n\
         *) exit 3 ;;\n\
         esac",
    );
    machine.fake("sleep", "");
}

#[test]
fn node_disappears_with_its_pods_if_it_is_lost() {
    Machine::with_each_shell(|machine| {
        with_objects(machine);
        let run = |verb, how| machine.run(NODE_REMOVE.verb(verb), &["node1", how]);
        assert_eq!(run("check", "left").printed, "the cluster has the node\n");
        machine.done(NODE_REMOVE.verb("delete"), &["node1", "left"]);
        assert!(machine.has("/root/objects/pods"));
        assert!(!machine.has("/var/lib/kubexm/cordoned-node1"));
        assert_eq!(run("check", "left").status, 0);
        // No kubelet ends the pods of a node that is lost.
        machine.write("/root/objects/node", "");
        machine.done(NODE_REMOVE.verb("delete"), &["node1", "lost"]);
        assert!(!machine.has("/root/objects/pods"));
    });
}

/// Adds the programs of a control plane.
pub(super) fn with_control_plane(machine: &Machine) {
    for name in [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "etcd",
    ] {
        machine.write(&format!("/etc/kubernetes/manifests/{name}.yaml"), "");
        machine.write(&format!("/root/running/{name}"), "");
    }
    machine.fake(
        "crictl",
        "cd /root/running\n\
         case $* in\n\
         'ps '*) all=$*; name=${all##*--name ^}; name=${name%%\\$*}; [ ! -e \"$name\" ] || echo \"$name\" ;;\n\
         'stop '*) for last in \"$@\"; do :; done; rm -f \"$last\" ;;\n\
         esac",
    );
    machine.fake(
        "systemctl",
        "cd /root/running\n\
         for last in \"$@\"; do :; done\n\
         case $1 in\nis-active) [ -e \"${last%.service}\" ] ;;\nstop) rm -f \"${last%.service}\" ;;\nesac",
    );
    machine.fake("sleep", "");
}

#[test]
fn control_plane_ends_and_etcd_goes_on() {
    for kind in ["kubeadm", "systemd"] {
        Machine::with_each_shell(|machine| {
            with_control_plane(machine);
            assert_eq!(
                machine
                    .run(CONTROL_PLANE_STOP.verb("stopped"), &[kind])
                    .status,
                1
            );
            machine.done(CONTROL_PLANE_STOP.verb("stop"), &[kind]);
            assert_eq!(
                machine
                    .run(CONTROL_PLANE_STOP.verb("stopped"), &[kind])
                    .status,
                0
            );
            assert!(machine.has("/root/running/etcd"));
            assert!(!machine.has("/root/running/kube-apiserver"));
        });
    }
}
