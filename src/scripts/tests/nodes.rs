//! Scripts that remove hosts from a cluster. The programs are stand-ins.

use super::machine::Machine;
use crate::etcd::MEMBERSHIP;
use crate::kubernetes::{CONTROL_PLANE_STOP, DRAIN, NODE_REMOVE};

/// Puts the stand-in for `etcdctl` into its own directory.
pub(super) const ETCDCTL: &str = "mount -t tmpfs none /usr/local/lib\nmkdir -p /usr/local/lib/kubexm\n\
                                  ln -s /usr/local/bin/etcdctl /usr/local/lib/kubexm/etcdctl";

/// Kind, and the peer address of the member of node1.
pub(super) const MEMBER: [&str; 2] = ["systemd", "https://192.0.2.1:2380"];

/// Kind, a host that is about to join, and all hosts of the cluster.
pub(super) const JOINING: [&str; 5] = [
    "systemd",
    "https://192.0.2.1:2380",
    "--",
    "https://192.0.2.1:2380",
    "https://192.0.2.3:2380",
];

/// Adds an etcd with three members, of which node1 leads, and with a learner that has never started. The members whose
/// addresses are in the file `dead` do not answer.
pub(super) fn with_members(machine: &Machine) {
    machine.write(
        "/root/etcd/members",
        "1, started, node1, https://192.0.2.1:2380, https://192.0.2.1:2379, false\n\
         2, started, node2, https://192.0.2.2:2380, https://192.0.2.2:2379, false\n\
         3, started, node3, https://192.0.2.3:2380, https://192.0.2.3:2379, false\n\
         4, unstarted, , https://192.0.2.4:2380, , true\n",
    );
    machine.write("/root/etcd/dead", "");
    machine.fake(
        "etcdctl",
        "at=/root/etcd\n\
         case $* in\n\
         *'member list -w json') echo '{\"header\":{}}' ;;\n\
         *'endpoint status -w json') ! grep -qxF \"$ETCDCTL_ENDPOINTS\" $at/dead && echo \"[$ETCDCTL_ENDPOINTS]\" ;;\n\
         *'endpoint health') ! grep -qxF \"$ETCDCTL_ENDPOINTS\" $at/dead ;;\n\
         *'member list') cat $at/members ;;\n\
         *move-leader*) [ \"$ETCDCTL_ENDPOINTS\" = https://192.0.2.1:2379 ] && : >$at/moved ;;\n\
         *'member remove '*) for id in \"$@\"; do :; done; [ -n \"$id\" ] && sed -i \"/^$id,/d\" $at/members ;;\n\
         *) exit 3 ;;\n\
         esac",
    );
    machine.fake("sleep", "");
    machine.fake("timeout", "shift; exec \"$@\"");
}

/// Returns the IDs of the members.
pub(super) fn ids(machine: &Machine) -> String {
    let members = machine.read("/root/etcd/members");
    members
        .lines()
        .filter_map(|line| line.split(',').next())
        .collect()
}

#[test]
fn member_is_removed_after_it_hands_over() {
    Machine::with_each_shell(|machine| {
        with_members(machine);
        let run = |verb| machine.run_after(ETCDCTL, MEMBERSHIP.verb(verb), &MEMBER, "");
        let ended = run("gone");
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (1, "etcd has the member\n")
        );
        let ended = run("remove");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert_eq!(ids(machine), "234");
        let calls = machine.calls();
        let moved = calls
            .iter()
            .position(|call| call.ends_with("move-leader 2"))
            .unwrap();
        let removed = calls
            .iter()
            .position(|call| call.ends_with("member remove 1"))
            .unwrap();
        assert!(
            moved < removed && machine.has("/root/etcd/moved"),
            "{calls:?}"
        );
        assert_eq!(run("gone").status, 0);
        assert_eq!(run("remove").status, 0);
    });
}

#[test]
fn member_stays_if_the_others_have_no_quorum() {
    Machine::with_each_shell(|machine| {
        with_members(machine);
        machine.write("/root/etcd/dead", "https://192.0.2.3:2379\n");
        let ended = machine.run_after(ETCDCTL, MEMBERSHIP.verb("remove"), &MEMBER, "");
        assert_eq!(ended.status, 1);
        assert_eq!(
            ended.complained,
            "etcd would have no quorum: of the other 2 members 1 are healthy, and 2 must be\n\
             hint: start the members that do not answer\n"
        );
        assert_eq!(ids(machine), "1234");
        // A dead member leaves a quorum of the others.
        machine.write("/root/etcd/dead", "https://192.0.2.1:2379\n");
        let ended = machine.run_after(ETCDCTL, MEMBERSHIP.verb("remove"), &MEMBER, "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert_eq!(ids(machine), "234");
    });
}

#[test]
fn members_and_their_states_are_listed() {
    Machine::with_each_shell(|machine| {
        with_members(machine);
        machine.write("/root/etcd/dead", "https://192.0.2.2:2379\n");
        let ended = machine.run_after(ETCDCTL, MEMBERSHIP.verb("list"), &["systemd", "15"], "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert_eq!(
            ended.printed,
            "{\"header\":{}}\n[https://192.0.2.1:2379]\n[https://192.0.2.3:2379]\n"
        );
    });
}

#[test]
fn members_without_a_host_are_swept_before_a_join() {
    Machine::with_each_shell(|machine| {
        with_members(machine);
        let run = |verb, arguments: &[&str]| {
            machine.run_after(ETCDCTL, MEMBERSHIP.verb(verb), arguments, "")
        };
        // Learners of a host of the cluster and of another host. node2 votes, and can be a member of the administrator.
        let mut members = machine.read("/root/etcd/members");
        for (id, host) in [(5, 3), (6, 6)] {
            members += &format!(
                "{id}, started, node{host}, https://192.0.2.{host}:2380, https://192.0.2.{host}:2379, true\n"
            );
        }
        machine.write("/root/etcd/members", &members);
        // node1 is a new host without data.
        let ended = run("clean", &JOINING);
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (1, "etcd has members without a host: 1 4 6 \n")
        );
        assert_eq!(run("sweep", &JOINING).status, 0);
        assert_eq!(ids(machine), "235");
        assert_eq!(run("clean", &JOINING).status, 0);
        assert_eq!(
            run("clean", &["systemd", "--"]).printed,
            "etcd has members without a host: 5 \n"
        );
    });
}

/// Adds a cluster with the node node1 and what it has because of it. kubectl keeps the objects as files.
pub(super) fn with_objects(machine: &Machine) {
    for object in ["node", "lease", "csinode", "csr-1", "pods"] {
        machine.write(&format!("/root/objects/{object}"), "");
    }
    machine.write("/var/lib/kubexm/cordoned-node1", "");
    machine.fake(
        "kubectl",
        "cd /root/objects\n\
         for last in \"$@\"; do :; done\n\
         case $* in\n\
         *'get node node1'*) [ ! -e node ] || echo node/node1 ;;\n\
         *'get lease '*) [ ! -e lease ] || echo node1 ;;\n\
         *'get csinode '*) [ ! -e csinode ] || echo node1 ;;\n\
         *'get certificatesigningrequests '*) [ ! -e csr-1 ] || echo 'system:node:node1 csr-1'; echo 'system:node:node11 csr-2' ;;\n\
         *'get crd '*) ;;\n\
         *'delete node '*) rm -f node ;;\n\
         *'delete pods '*) rm -f pods ;;\n\
         *' lease node1') rm -f lease ;;\n\
         *' csinode node1') rm -f csinode ;;\n\
         *' csr csr-1') rm -f csr-1 ;;\n\
         *) exit 3 ;;\n\
         esac",
    );
    machine.fake("sleep", "");
}

#[test]
fn node_disappears_with_its_objects() {
    Machine::with_each_shell(|machine| {
        with_objects(machine);
        let run = |verb, how| machine.run(NODE_REMOVE.verb(verb), &["node1", how]);
        assert_eq!(run("check", "left").printed, "the cluster has the node\n");
        machine.done(NODE_REMOVE.verb("delete"), &["node1", "left"]);
        assert!(machine.has("/root/objects/pods"));
        assert!(!machine.has("/var/lib/kubexm/cordoned-node1"));
        assert_eq!(run("check", "left").status, 0);
        let left = run("swept", "");
        assert_eq!(
            (left.status, left.printed.as_str()),
            (1, "the cluster has lease node1 csinode node1 csr csr-1 \n")
        );
        machine.done(NODE_REMOVE.verb("sweep"), &["node1"]);
        assert_eq!(run("swept", "").status, 0);
        // No kubelet ends the pods of a node that is lost.
        machine.write("/root/objects/node", "");
        machine.done(NODE_REMOVE.verb("delete"), &["node1", "lost"]);
        assert!(!machine.has("/root/objects/pods"));
    });
}

#[test]
fn node_without_a_kubelet_is_drained_without_waiting_for_it() {
    Machine::with_each_shell(|machine| {
        machine.write("/var/lib/kubexm/cluster", "");
        machine.fake(
            "kubectl",
            "case $* in\n\
             *'get node node1 --ignore-not-found'*) echo node/node1 ;;\n\
             *Ready*) printf Unknown ;;\n\
             *volumeattachments*) echo 'node2 csi-1' ;;\n\
             esac",
        );
        machine.fake("sleep", "");
        let arguments = ["node=node1", "version=1.36.3", "seconds=5", "--", "--force"];
        assert_eq!(machine.run(DRAIN.verb("left"), &arguments).status, 1);
        machine.done(DRAIN.verb("leave"), &arguments);
        let calls = machine.calls();
        let drain = calls.iter().find(|call| call.contains(" drain ")).unwrap();
        assert!(
            drain.ends_with("--timeout=5s --force --skip-wait-for-delete-timeout=1"),
            "{drain}"
        );
        assert!(machine.has("/var/lib/kubexm/cordoned-node1"));
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
