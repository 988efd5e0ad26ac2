//! `kubeadm init` and `kubeadm join`, and the clean-up after runs that failed. The programs are stand-ins.

use std::collections::BTreeSet;

use super::machine::Machine;
use crate::kubeadm::NODE;

const SOCKET: &str = "socket=unix:///run/cri.sock";

/// A worker.
const WORKER: [&str; 1] = [SOCKET];
/// A control plane that joins with a member of etcd.
pub(super) const MEMBER: [&str; 2] = [SOCKET, "etcd=/var/lib/etcd"];

/// Arguments of the first control plane.
pub(super) fn first(etcd: &'static str, static_pods: &'static str) -> [&'static str; 4] {
    [SOCKET, etcd, "config=/etc/init.yaml", static_pods]
}

/// Adds stand-ins for systemctl, journalctl, crictl with the pods in `/root/pods`, and kubeadm with the files that it
/// creates before it fails where `/root/broken` exists.
pub(super) fn with_kubeadm(machine: &Machine) {
    machine.write("/root/pods", "");
    machine.fake("systemctl", "");
    machine.fake("journalctl", "echo 'the cause'");
    machine.fake(
        "crictl",
        "[ ! -e /root/silent ] || { echo 'no answer' >&2; exit 1; }\n\
         case \"$*\" in\n\
         *' pods -q'*) cat /root/pods ;;\n\
         *' rmp -f '*) [ -e /root/stuck ] || for id in \"$@\"; do sed -i \"/^$id\\$/d\" /root/pods; done ;;\n\
         esac",
    );
    machine.fake(
        "kubeadm",
        "k=/etc/kubernetes l=/var/lib/kubelet\n\
         mkdir -p $k/manifests $k/pki/etcd $l/pki $l/pods/uid1/volumes\n\
         for path in $k/kubelet.conf $k/admin.conf $k/pki/sa.pub $k/pki/ca.crt $k/pki/ca.key $k/pki/etcd/peer.crt \\\n\
           $k/pki/etcd/peer.key $k/manifests/etcd.yaml $k/manifests/kube-apiserver.yaml $l/config.yaml \\\n\
           $l/pki/kubelet-client-current.pem $l/pods/uid1/volumes/x; do\n\
           [ -e \"$path\" ] || echo new >\"$path\"\n\
         done\n\
         echo new-pod >>/root/pods\n\
         if [ \"$1\" = init ]; then mkdir -p /var/lib/etcd/member/wal; fi\n\
         [ ! -e /root/broken ] || { echo 'the kubelet is not healthy' >&2; exit 1; }",
    );
}

fn files(machine: &Machine) -> BTreeSet<String> {
    let find = std::process::Command::new("find")
        .args(["etc/kubernetes", "var/lib/kubelet", "var/lib/etcd"])
        .current_dir(machine.at("/"))
        .output()
        .unwrap();
    let found = String::from_utf8(find.stdout).unwrap();
    found.lines().map(str::to_owned).collect()
}

/// Before, the clean-up called `kubeadm reset` and removed etcd's data, so the second run of an install deleted the data
/// of an earlier member, with which kubeadm refused to start.
#[test]
fn clean_up_removes_only_what_the_attempt_created() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.write("/root/broken", "");
        for (path, content) in [
            ("/etc/kubernetes/pki/ca.crt", "ca of the site"),
            ("/etc/kubernetes/pki/ca.key", "key of the site"),
            ("/etc/kubernetes/pki/oidc-ca.crt", "theirs"),
            ("/etc/kubernetes/manifests/node-agent.yaml", "theirs"),
            ("/etc/kubernetes/audit-policy.yaml", "theirs"),
            ("/etc/cni/net.d/10-site.conf", "theirs"),
            ("/var/lib/kubelet/config.json", "theirs"),
            ("/var/lib/kubelet/pods/earlier/volumes/y", "theirs"),
            ("/var/lib/etcd/member/wal/0.wal", "an earlier member"),
            ("/root/pods", "earlier-pod\n"),
            ("/etc/kubexm/static-pods/vip.yaml", "pod"),
            ("/var/log/pods/kube-system_etcd-node1_1/etcd/0.log", "panic"),
        ] {
            machine.write(path, content);
        }
        let before = files(machine);
        let arguments = first("etcd=/var/lib/etcd", "static_pods=yes");
        for _ in 0..2 {
            let ended = machine.run(NODE.verb("init"), &arguments);
            assert_eq!(ended.status, 1);
            let words = &ended.complained;
            assert!(words.starts_with("the kubelet is not healthy\nkubelet: the cause\nhint: "));
            assert!(machine.has("/etc/kubernetes/manifests/vip.yaml"));
            for _ in 0..2 {
                machine.done(NODE.verb("clean-up"), &arguments);
                assert_eq!(files(machine), before);
            }
        }
        assert_eq!(
            machine.read("/etc/kubernetes/pki/ca.key"),
            "key of the site"
        );
        assert_eq!(machine.read("/root/pods"), "earlier-pod\n");
        assert!(machine.has("/etc/cni/net.d/10-site.conf"));
        let kept = machine.read("/var/lib/kubexm/failed/pods.log");
        assert!(kept.contains("panic"), "{kept}");
        assert_eq!(
            machine.read("/var/lib/kubexm/failed/kubelet.log"),
            "the cause\n"
        );
        let calls = machine.calls();
        let others = ["kubeadm reset", "iptables", "ip ", "ipset", "nft "];
        assert!(
            !calls
                .iter()
                .any(|call| others.iter().any(|other| call.starts_with(other))),
            "{calls:?}"
        );
        // Where kubeadm did nothing, nothing is stopped or removed.
        machine.done(NODE.verb("clean-up"), &arguments);
        assert!(machine.calls().is_empty());
    });
}

#[test]
fn clean_up_and_reset_remove_the_data_of_etcd_where_it_is() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.write("/root/broken", "");
        machine.write("/var/lib/etcd/member/wal/0.wal", "another etcd");
        let arguments = first("etcd=/srv/etcd", "static_pods=no");
        machine.run(NODE.verb("init"), &arguments);
        machine.write("/srv/etcd/member/wal/0.wal", "new");
        machine.done(NODE.verb("clean-up"), &arguments);
        assert!(!machine.has("/srv/etcd/member"));
        machine.write("/etc/kubernetes/manifests/etcd.yaml", "pod");
        machine.write("/srv/etcd/member/wal/0.wal", "new");
        machine.done(crate::kubeadm::RESET, &[SOCKET, "/srv/etcd"]);
        assert!(!machine.has("/srv/etcd/member"));
        // The stand-in of kubeadm wrote there, and neither script removes it.
        assert!(machine.has("/var/lib/etcd/member/wal/0.wal"));
        // A receipt of an earlier version.
        machine.write("/etc/kubernetes/manifests/etcd.yaml", "pod");
        machine.done(crate::kubeadm::RESET, &[SOCKET]);
        assert!(!machine.has("/var/lib/etcd/member"));
    });
}

/// A reset removes the data of etcd only where etcd.yaml is, because another etcd may own it.
#[test]
fn reset_after_a_killed_clean_up_removes_the_data_of_etcd() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.write("/root/broken", "");
        let arguments = first("etcd=/var/lib/etcd", "static_pods=no");
        machine.run(NODE.verb("init"), &arguments);
        machine.fake(
            "rm",
            "case \"$*\" in */var/lib/etcd/member*) exit 1 ;; esac\nexec /bin/rm \"$@\"",
        );
        assert_eq!(machine.run(NODE.verb("clean-up"), &arguments).status, 1);
        machine.fake("rm", "exec /bin/rm \"$@\"");
        assert!(machine.has("/var/lib/etcd/member"));
        machine.done(crate::kubeadm::RESET, &[SOCKET, "/var/lib/etcd"]);
        assert!(!machine.has("/var/lib/etcd/member"));
    });
}

#[test]
fn clean_up_removes_all_that_kubeadm_created_on_an_empty_host() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.write("/root/broken", "");
        let arguments = first("etcd=/var/lib/etcd", "static_pods=no");
        machine.run(NODE.verb("init"), &arguments);
        machine.write("/disk/data", "theirs");
        let volume = "/var/lib/kubelet/pods/uid1/volumes/a disk";
        let mount = format!("mkdir -p '{volume}'; mount --bind /disk '{volume}'");
        let ended = machine.run_after(&mount, NODE.verb("clean-up"), &arguments, "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let left = files(machine);
        assert!(
            left.iter().all(|path| machine.at(path).is_dir())
                && !machine.has("/var/lib/etcd/member"),
            "{left:?}"
        );
        assert_eq!(machine.read("/disk/data"), "theirs");
        assert_eq!(machine.read("/root/pods"), "");
        std::fs::remove_file(machine.at("/root/broken")).unwrap();
        machine.done(NODE.verb("init"), &arguments);
    });
}

/// A clean-up that cannot see or end the pods leaves the files that they use.
#[test]
fn clean_up_fails_while_pods_of_the_attempt_run() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.write("/root/broken", "");
        let arguments = first("etcd=/var/lib/etcd", "static_pods=no");
        machine.run(NODE.verb("init"), &arguments);
        let before = files(machine);
        for (state, words) in [
            ("/root/silent", "no answer\n"),
            (
                "/root/stuck",
                "pod new-pod of the failed attempt does not end\n",
            ),
        ] {
            machine.write(state, "");
            let ended = machine.run(NODE.verb("clean-up"), &arguments);
            assert_eq!((ended.status, ended.complained.as_str()), (1, words));
            assert_eq!(files(machine), before);
            std::fs::remove_file(machine.at(state)).unwrap();
        }
        machine.done(NODE.verb("clean-up"), &arguments);
        // Without an answer it is not known which pods exist, so the attempt does not begin.
        machine.calls();
        machine.write("/root/silent", "");
        assert_eq!(machine.run(NODE.verb("init"), &arguments).status, 1);
        let calls = machine.calls();
        assert!(
            !calls.iter().any(|call| call.starts_with("kubeadm")),
            "{calls:?}"
        );
    });
}

/// An earlier version of kubexm left no list of what existed.
#[test]
fn clean_up_after_an_earlier_version_removes_what_is_newer_than_its_attempt() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.write("/root/broken", "");
        let arguments = first("etcd=/var/lib/etcd", "static_pods=no");
        machine.write("/etc/kubernetes/pki/ca.crt", "theirs");
        machine.write("/var/lib/etcd/member/wal/0.wal", "theirs");
        let before = files(machine);
        machine.write("/var/lib/kubexm/done/kubeadm-init.begun", "");
        // This version was killed before it made its list: nothing is newer.
        machine.done(NODE.verb("clean-up"), &arguments);
        assert_eq!(files(machine), before);
        // File systems store times with the resolution of the kernel's timer.
        std::thread::sleep(std::time::Duration::from_millis(20));
        machine.run(NODE.verb("init"), &arguments);
        std::fs::remove_file(machine.at("/var/lib/kubexm/kubeadm-before")).unwrap();
        machine.done(NODE.verb("clean-up"), &arguments);
        let left = files(machine);
        let new: Vec<&String> = left.difference(&before).collect();
        assert!(new.iter().all(|path| machine.at(path).is_dir()), "{new:?}");
        assert!(before.is_subset(&left), "{left:?}");
        assert_eq!(machine.read("/root/pods"), "");
    });
}

#[test]
fn join_waits_until_the_name_of_a_dead_node_is_free() {
    Machine::with_each_shell(|machine| {
        machine.fake("sleep", "");
        machine.fake("systemctl", "");
        machine.fake("journalctl", "");
        machine.fake(
            "kubeadm",
            "joins=$(grep -c '^kubeadm join' /root/calls)\n\
             mkdir -p /etc/kubernetes\n\
             [ ! -e /etc/kubernetes/bootstrap-kubelet.conf ] || { echo 'the file exists' >&2; exit 1; }\n\
             : >/etc/kubernetes/bootstrap-kubelet.conf\n\
             [ \"$joins\" -ge 3 ] || { echo 'node1 already exists in the cluster' >&2; exit 1; }",
        );
        let input = "export INPUT=/run/join.yaml";
        let ended = machine.run_after(input, NODE.verb("join"), &WORKER, "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let calls = machine.calls();
        let calls: Vec<&str> = calls
            .iter()
            .map(String::as_str)
            .filter(|call| call.starts_with("kubeadm") || call.starts_with("sleep"))
            .collect();
        let join = "kubeadm join --config /run/join.yaml";
        assert_eq!(calls, [join, "sleep 10", join, "sleep 10", join]);
        machine.fake("kubeadm", "echo 'no such token' >&2; exit 1");
        let ended = machine.run_after(input, NODE.verb("join"), &WORKER, "");
        assert_eq!(ended.status, 1);
        let words = &ended.complained;
        assert!(words.starts_with("no such token\nhint: "), "{words}");
    });
}

/// A task before has removed its member from etcd.
#[test]
fn failed_join_leaves_no_data_of_its_member() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.write("/root/broken", "");
        let input = "export INPUT=/run/join.yaml";
        let ended = machine.run_after(input, NODE.verb("join"), &MEMBER, "");
        assert_eq!(ended.status, 1);
        machine.write("/var/lib/etcd/member/db", "");
        machine.done(NODE.verb("clean-up"), &MEMBER);
        assert!(!machine.has("/var/lib/etcd/member") && !machine.has("/etc/kubernetes/admin.conf"));
    });
}

/// The administrator of another cluster that was here before is not used to remove a member.
#[test]
fn clean_up_asks_no_cluster_that_the_attempt_did_not_join() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.fake("kubectl", "");
        machine.write("/etc/kubernetes/admin.conf", "another cluster");
        machine.write("/root/broken", "");
        let input = "export INPUT=/run/join.yaml";
        machine.run_after(input, NODE.verb("join"), &MEMBER, "");
        machine.done(NODE.verb("clean-up"), &MEMBER);
        assert!(
            !machine
                .calls()
                .iter()
                .any(|call| call.starts_with("kubectl"))
        );
        assert_eq!(
            machine.read("/etc/kubernetes/admin.conf"),
            "another cluster"
        );
    });
}

#[test]
fn data_of_an_etcd_that_kubeadm_does_not_run_is_kept() {
    Machine::with_each_shell(|machine| {
        with_kubeadm(machine);
        machine.write("/etc/kubexm/static-pods/vip.yaml", "pod");
        machine.write("/root/broken", "");
        machine.run(NODE.verb("init"), &first("etcd=", "static_pods=no"));
        assert!(!machine.has("/etc/kubernetes/manifests/vip.yaml"));
        machine.done(NODE.verb("clean-up"), &first("etcd=", "static_pods=no"));
        assert!(machine.has("/var/lib/etcd/member"));
        std::fs::remove_file(machine.at("/root/broken")).unwrap();
        machine.done(NODE.verb("init"), &first("etcd=", "static_pods=yes"));
        assert_eq!(machine.read("/etc/kubernetes/manifests/vip.yaml"), "pod");
        let calls = machine.calls();
        assert!(calls.contains(&"kubeadm init --config /etc/init.yaml".to_owned()));
    });
}
