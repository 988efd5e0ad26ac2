//! Scripts that move pods to other nodes. kubectl is a stand-in.

use super::machine::Machine;
use crate::kubernetes::DRAIN;

/// The node, the versions after the upgrade, the time for evictions and an option of kubectl.
pub(super) const DRAINED: [&str; 6] = [
    "node=node1",
    "version=1.36.3",
    "seconds=5",
    "runtime=containerd://2.3",
    "--",
    "--force",
];
/// The arguments for the return of the same node.
pub(super) const RETURNED: [&str; 2] = ["node=node1", "version=1.36.3"];
const MARK: &str = "/var/lib/kubexm/cordoned-node1";

/// Adds a cluster with the node `node1`: kubectl keeps what it changes in files.
pub(super) fn with_node(machine: &Machine) {
    machine.write("/root/fake/kubelet", "v1.35.4");
    machine.write("/root/fake/runtime", "containerd://2.2.9");
    machine.write("/var/lib/kubexm/cluster", "");
    machine.fake(
        "kubectl",
        "at=/usr/local/bin\n\
         case $* in\n\
         *poddisruptionbudgets*) printf 'default/web\\t0\\t1\\t1\\n' ;;\n\
         *volumeattachments*) cat $at/volumes 2>/dev/null || : ;;\n\
         *' get pods -A '*) printf 'app\\tds-1\\tdata logs\\tscratch\\tDaemonSet\\napp\\tweb-0\\tweb\\t\\tStatefulSet\\n' ;;\n\
         *persistentvolumes*) printf 'pv-1\\tapp\\tdata\\npv-2\\tapp\\tds-1-scratch\\npv-3\\tapp\\tweb\\n' ;;\n\
         *k8s-app=kube-dns*) cat $at/dns 2>/dev/null || : ;;\n\
         *' delete pod '*) echo 'node2 True dns-3' >>$at/dns ;;\n\
         *' drain '*) [ ! -e $at/stuck ] || { cat $at/stuck >&2; exit 1; }; : >$at/drained ;;\n\
         *' cordon '*) : >$at/unschedulable ;;\n\
         *' uncordon '*) rm -f $at/unschedulable ;;\n\
         *unschedulable*) [ ! -e $at/unschedulable ] || printf true ;;\n\
         *kubeletVersion*Ready*) printf '%s True' \"$(cat $at/kubelet)\" ;;\n\
         *kubeletVersion*) cat $at/kubelet ;;\n\
         *containerRuntimeVersion*) cat $at/runtime ;;\n\
         *Ready*) [ ! -e $at/silent ] || exit 1; cat $at/ready 2>/dev/null || printf True ;;\n\
         *) exit 3 ;;\n\
         esac",
    );
    machine.fake("sleep", "");
}

#[test]
fn node_is_cordoned_drained_and_returned() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        let check = machine.run(DRAIN.verb("check"), &DRAINED);
        assert_eq!(
            (check.status, check.printed.as_str()),
            (1, "its kubelet has the version v1.35.4\n")
        );
        machine.done(DRAIN.verb("drain"), &DRAINED);
        assert!(machine.has(MARK) && machine.has("/root/fake/drained"));
        let calls = machine.calls();
        let drain = calls.iter().find(|call| call.contains(" drain ")).unwrap();
        assert!(
            drain.ends_with(
                "drain node1 --ignore-daemonsets --delete-emptydir-data --timeout=5s --force"
            ),
            "{drain}"
        );
        assert_eq!(machine.run(DRAIN.verb("returned"), &RETURNED).status, 1);
        let early = machine.run(DRAIN.verb("return"), &RETURNED);
        assert!(
            early
                .complained
                .contains("node1 is not Ready with a kubelet of version 1.36.3\nhint: ")
        );
        assert!(machine.has(MARK) && machine.has("/root/fake/unschedulable"));
        machine.write("/root/fake/kubelet", "v1.36.3");
        machine.done(DRAIN.verb("return"), &RETURNED);
        assert!(!machine.has(MARK) && !machine.has("/root/fake/unschedulable"));
        machine.done(DRAIN.verb("returned"), &RETURNED);
        // A rollback finds the former kubelet and the newer containerd, whose pods end.
        let check = machine.run(DRAIN.verb("check"), &DRAINED);
        assert_eq!(
            (check.status, check.printed.as_str()),
            (1, "its pods run with containerd://2.2.9\n")
        );
        machine.write("/root/fake/runtime", "containerd://2.3.7");
        machine.done(DRAIN.verb("check"), &DRAINED);
    });
}

#[test]
fn one_pod_of_dns_moves_before_the_others() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        machine.write("/root/fake/dns", "node1 True dns-1\nnode1 True dns-2\n");
        machine.done(DRAIN.verb("drain"), &DRAINED);
        let calls = machine.calls();
        let place = |part: &str| calls.iter().position(|call| call.contains(part)).unwrap();
        assert!(place("delete pod dns-1 ") < place(" drain node1 "));
        // None is ready elsewhere, and the only one that is ready stays.
        machine.write("/root/fake/dns", "node1 True dns-1\nnode2 False dns-2\n");
        let ended = machine.run(DRAIN.verb("drain"), &DRAINED);
        assert_eq!(ended.status, 1);
        let said = "no pod of CoreDNS is ready on another node than node1\nthe scheduler may use node1 again\nhint: ";
        assert!(ended.complained.starts_with(said), "{}", ended.complained);
        // A single pod moves with the drain.
        machine.write("/root/fake/dns", "node1 True dns-1\n");
        machine.done(DRAIN.verb("drain"), &DRAINED);
    });
}

/// Returns how often a script asked for attachments.
fn attachments_asked(machine: &Machine) -> usize {
    let calls = machine.calls();
    let asked = calls.iter();
    let asked = asked.filter(|call| call.contains("volumeattachments"));
    asked.count()
}

#[test]
fn drain_waits_for_volumes_and_goes_on_after_a_time() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        machine.write("/root/fake/volumes", "node1 csi-1 pv-3\nnode2 csi-2 pv-4\n");
        machine.done(DRAIN.verb("drain"), &DRAINED);
        assert!(attachments_asked(machine) > 1);
        let ended = machine.run(DRAIN.verb("leave"), &DRAINED);
        assert_eq!(ended.status, 1);
        let said = "volumes are still attached to node1: csi-1 \nhint: ";
        assert!(ended.complained.starts_with(said), "{}", ended.complained);
    });
}

/// Before, a node with such a volume could not leave the cluster, and each drain waited for two minutes.
#[test]
fn volumes_of_daemon_sets_stay_attached() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        machine.write("/root/fake/volumes", "node1 csi-1 pv-1\nnode1 csi-2 pv-2\n");
        machine.done(DRAIN.verb("leave"), &DRAINED);
        assert_eq!(attachments_asked(machine), 1);
    });
}

/// Before, the removal of a host that answers SSH, and whose kubelet has ended, did not go on.
#[test]
fn kubelet_that_does_not_work_detaches_nothing() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        machine.write("/root/fake/volumes", "node1 csi-1 pv-3\n");
        machine.write("/root/fake/ready", "Unknown");
        machine.done(DRAIN.verb("leave"), &DRAINED);
        assert_eq!(attachments_asked(machine), 0);
        // This one may detach volumes, but need not.
        machine.write("/root/fake/ready", "False");
        machine.done(DRAIN.verb("leave"), &DRAINED);
        assert!(attachments_asked(machine) > 1);
    });
}

/// An API server that does not answer says nothing about the kubelet.
#[test]
fn node_of_which_nothing_is_known_does_not_leave() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        machine.write("/root/fake/silent", "");
        assert_eq!(machine.run(DRAIN.verb("leave"), &DRAINED).status, 1);
        assert!(!machine.has("/root/fake/drained"));
    });
}

/// Its pod may come from a StatefulSet that tolerates a cordoned node, and an inline volume has no PersistentVolume.
#[test]
fn volumes_of_other_pods_keep_a_node_from_leaving() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        for volume in ["node1 csi-1 pv-3\n", "node1 csi-1 \n"] {
            machine.write("/root/fake/volumes", volume);
            let ended = machine.run(DRAIN.verb("leave"), &DRAINED);
            assert_eq!(ended.status, 1, "{volume}");
        }
    });
}

#[test]
fn node_that_an_administrator_has_cordoned_stays_cordoned() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        machine.write("/root/fake/unschedulable", "");
        machine.done(DRAIN.verb("drain"), &DRAINED);
        assert!(!machine.has(MARK));
        machine.write("/root/fake/kubelet", "v1.36.3");
        machine.done(DRAIN.verb("return"), &RETURNED);
        assert!(machine.has("/root/fake/unschedulable"));
    });
}

#[test]
fn drain_that_does_not_end_names_pods_and_budgets_and_returns_the_node() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        let refusal = "error when evicting pods/\"web-1\" -n \"default\" (will retry after 5s): Cannot evict pod as it would \
                       violate the pod's disruption budget.\n";
        // This one leaves it later.
        let other = refusal.replace("web-1", "web-2");
        let rest = "There are pending pods in node \"node1\" when an error occurred: [error when evicting pods/\"web-1\" -n \
                    \"default\": global timeout reached: 5s]\npod/web-1\nerror: unable to drain node \"node1\" due to error: \
                    error when evicting pods/\"web-1\" -n \"default\": global timeout reached: 5s, continuing command...\n\
                    There are pending nodes to be drained:\n node1\nerror when evicting pods/\"web-1\" -n \"default\": \
                    global timeout reached: 5s\nerror: unable to drain node\n";
        let said = format!(
            "evicting pod default/web-1\n{other}{refusal}pod/web-2 evicted\n{refusal}{rest}"
        );
        machine.write("/root/fake/stuck", &said);
        let ended = machine.run(DRAIN.verb("drain"), &DRAINED);
        assert_eq!(ended.status, 1);
        assert_eq!(
            ended.complained.lines().collect::<Vec<_>>(),
            [
                "the pods of node1 did not leave it within 5 seconds",
                "default/web-1: Cannot evict pod as it would violate the pod's disruption budget.",
                "error: unable to drain node",
                "the PodDisruptionBudget default/web permits no eviction: 1 pods are healthy, and it requires 1",
                "the scheduler may use node1 again",
                "hint: add replicas or change the budget, then run the same command again; --drain-disable-eviction deletes \
                 the pods without regard to budgets",
            ]
        );
        assert!(!machine.has(MARK) && !machine.has("/root/fake/unschedulable"));
        machine.write(
            "/root/fake/stuck",
            "cannot delete cannot delete Pods that declare no controller (use --force to override): default/alone\n",
        );
        let ended = machine.run(DRAIN.verb("drain"), &DRAINED);
        assert!(
            ended.complained.contains("default/alone"),
            "{}",
            ended.complained
        );
        assert!(ended.complained.contains("permit it with --drain-force"));
    });
}
