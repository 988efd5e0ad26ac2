//! The script that calls kubectl for a node whose pods move. kubectl is a stand-in.

use super::machine::Machine;
use crate::kubernetes::DRAIN;

const MARK: &str = "/var/lib/kubexm/cordoned-node1";

/// Adds a cluster with the node `node1`: kubectl keeps what it changes in files.
pub(super) fn with_node(machine: &Machine) {
    machine.write("/var/lib/kubexm/cluster", "");
    machine.write("/root/fake/kubelet", "v1.35.4");
    machine.fake(
        "kubectl",
        "at=/usr/local/bin\n\
         case $* in\n\
         *' drain '*) echo 'pod/a evicted'; echo why >&2; [ ! -e $at/stuck ] ;;\n\
         *' cordon '*) : >$at/unschedulable ;;\n\
         *' uncordon '*) rm -f $at/unschedulable ;;\n\
         *kubeletVersion*Ready*) printf '%s True' \"$(cat $at/kubelet)\" ;;\n\
         *' get '*) echo '{}' ;;\n\
         esac",
    );
    machine.fake("sleep", "");
}

#[test]
fn node_that_kubexm_has_cordoned_is_known() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        let cordoned = || machine.run(DRAIN.verb("cordoned"), &["node1"]).status;
        assert_eq!(cordoned(), 1);
        machine.done(DRAIN.verb("cordon"), &["node1"]);
        assert_eq!(cordoned(), 0);
        assert!(machine.has("/root/fake/unschedulable"));
        machine.done(DRAIN.verb("uncordon"), &["node1"]);
        assert_eq!(cordoned(), 1);
        assert!(!machine.has(MARK) && !machine.has("/root/fake/unschedulable"));
        // A node that an administrator has cordoned stays cordoned.
        machine.write("/root/fake/unschedulable", "");
        machine.done(DRAIN.verb("uncordon"), &["node1"]);
        assert!(machine.has("/root/fake/unschedulable"));
    });
}

#[test]
fn script_returns_what_kubectl_prints() {
    Machine::with_each_shell(|machine| {
        with_node(machine);
        let arguments = ["node1", "--timeout=5s", "--force"];
        let ended = machine.run(DRAIN.verb("evict"), &arguments);
        let (status, printed) = (ended.status, ended.printed.as_str());
        assert_eq!((status, printed), (0, "pod/a evicted\nwhy\n"));
        machine.write("/root/fake/stuck", "");
        let ended = machine.run(DRAIN.verb("evict"), &arguments);
        let (status, printed) = (ended.status, ended.printed.as_str());
        assert_eq!((status, printed), (1, "pod/a evicted\nwhy\n"));
        machine.done(DRAIN.verb("delete"), &["dns-1"]);
        let calls = machine.calls();
        let ends = [
            "drain node1 --timeout=5s --force --ignore-daemonsets --delete-emptydir-data",
            "drain node1 --timeout=5s --force --ignore-daemonsets --delete-emptydir-data",
            "-n kube-system delete pod dns-1 --wait=false",
        ];
        assert_eq!(calls.len(), ends.len());
        for (call, end) in calls.iter().zip(ends) {
            assert!(call.ends_with(end), "{call}");
        }
    });
}
