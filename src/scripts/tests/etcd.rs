//! Scripts that change etcd.

use super::machine::Machine;
use crate::etcd;

/// Puts `etcdctl` into its own directory.
const ETCDCTL: &str = "mount -t tmpfs none /usr/local/lib\nmkdir -p /usr/local/lib/kubexm\n\
                       cp /root/etcdctl /usr/local/lib/kubexm/etcdctl";

/// Links the stand-in for `etcdctl` into that directory.
pub(super) const LINKED_ETCDCTL: &str = "mount -t tmpfs none /usr/local/lib\nmkdir -p /usr/local/lib/kubexm\n\
                                         ln -s /usr/local/bin/etcdctl /usr/local/lib/kubexm/etcdctl";

/// Moves the stand-in for `etcdctl` away from the programs of users.
fn hide_etcdctl(machine: &Machine) {
    let (from, to) = ("/root/fake/etcdctl", "/root/etcdctl");
    std::fs::rename(machine.at(from), machine.at(to)).unwrap();
}

const ARGUMENTS: [&str; 3] = [
    "data=/srv/etcd",
    "state=new",
    "members=node1=https://192.0.2.1:2380",
];

#[test]
fn first_start_of_a_member_is_prepared_where_it_has_no_data() {
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", "");
        machine.write("/srv/etcd/member/snap/db", "half");
        let ended = machine.run(etcd::MEMBER.verb("has-data"), &ARGUMENTS);
        assert_eq!((ended.status, ended.printed.as_str()), (1, "has no data\n"));
        machine.done(etcd::MEMBER.verb("stop"), &ARGUMENTS);
        machine.done(etcd::MEMBER.verb("begin"), &ARGUMENTS);
        assert!(machine.has("/srv/etcd") && !machine.has("/srv/etcd/member"));
        assert_eq!(machine.calls(), ["systemctl stop etcd.service"; 2]);
        let initial = machine.read("/run/kubexm/etcd-initial.env");
        assert_eq!(
            initial,
            "ETCD_INITIAL_CLUSTER=node1=https://192.0.2.1:2380\nETCD_INITIAL_CLUSTER_STATE=new\n"
        );
        let arguments = ["/run/kubexm/etcd-initial.env"];
        assert_eq!(
            machine.run(etcd::FORMED.verb("check"), &arguments).status,
            1
        );
        machine.done(etcd::FORMED.verb("mark"), &arguments);
        machine.done(etcd::FORMED.verb("check"), &arguments);
        assert!(!machine.has("/run/kubexm/etcd-initial.env"));
        // Data that a start has written since the check stays.
        machine.write("/srv/etcd/member/wal/0.wal", "new");
        let ended = machine.run(etcd::MEMBER.verb("begin"), &ARGUMENTS);
        assert_eq!(ended.status, 1);
        assert!(machine.has("/srv/etcd/member/wal/0.wal"));
        machine.done(etcd::MEMBER.verb("has-data"), &ARGUMENTS);
    });
}

#[test]
fn member_that_does_not_answer_is_reported() {
    Machine::with_each_shell(|machine| {
        machine.fake("etcdctl", "[ ! -e /root/silent ]");
        hide_etcdctl(machine);
        let run = || machine.run_after(ETCDCTL, etcd::MEMBER.verb("answers"), &[], "");
        assert_eq!(run().status, 0);
        machine.write("/root/silent", "");
        assert_eq!(
            (run().status, run().printed.as_str()),
            (1, "does not answer\n")
        );
    });
}

#[test]
fn etcdctl_of_the_host_asks_its_member_or_others() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "etcdctl",
            "echo \"${ETCDCTL_ENDPOINTS:-} ${ETCDCTL_CERT:-} $*\"; [ ! -e /root/fails ]",
        );
        std::fs::copy(
            machine.at("/root/fake/etcdctl"),
            machine.at("/root/etcdctl"),
        )
        .unwrap();
        machine.fake(
            "crictl",
            "[ \"$1\" != ps ] || { cat /root/container; exit; }\nshift 3; exec \"$@\"",
        );
        machine.write("/root/container", "c1\n");
        machine.write(
            "/etc/kubernetes/manifests/etcd.yaml",
            "    - --listen-client-urls=https://[::1]:2379,https://[fd00::1]:2379\n",
        );
        let run = |given: &[&str]| {
            let words = [given, &["--", "member", "remove", "8e9e"]].concat();
            machine.run_after(ETCDCTL, etcd::ASK, &words, "")
        };
        let unit = "/etc/kubexm/etcd-member/admin.crt member remove 8e9e\n";
        let pod = "--cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt --key \
                   /etc/kubernetes/pki/etcd/server.key member remove 8e9e\n";
        let others = "endpoints=https://192.0.2.2:2379,https://192.0.2.3:2379";
        let urls = others.strip_prefix("endpoints=").unwrap();
        for (given, expected) in [
            (
                &["kind=systemd"][..],
                format!("https://127.0.0.1:2379 {unit}"),
            ),
            (&["kind=systemd", others], format!("{urls} {unit}")),
            (
                &["kind=kubeadm", "most=85"],
                format!("  --endpoints https://[::1]:2379 {pod}"),
            ),
            (
                &["kind=kubeadm", others],
                format!("  --endpoints {urls} {pod}"),
            ),
        ] {
            let ended = run(given);
            assert_eq!((ended.status, ended.printed), (0, expected));
        }
        machine.write("/root/fails", "");
        for kind in ["kind=systemd", "kind=kubeadm"] {
            assert_eq!(run(&[kind]).status, 1);
        }
        machine.write("/root/container", "");
        let ended = run(&["kind=kubeadm"]);
        assert_eq!(
            (ended.status, ended.complained.as_str()),
            (1, "the container of etcd does not run\n")
        );
        machine.fake("timeout", "exit 124");
        let ended = run(&["kind=kubeadm"]);
        assert_eq!(
            (ended.status, ended.complained.as_str()),
            (1, "the container runtime does not answer\n")
        );
    });
}

#[test]
fn restart_of_etcd_is_known_before_it_happens() {
    Machine::with_each_shell(|machine| {
        machine.write("/etc/a.conf", "new");
        machine.fake("systemctl", "");
        let arguments = ["etcd.service", "/etc/a.conf"];
        assert_eq!(machine.done(etcd::RESTARTS, &arguments), "restarts\n");
        // It runs with these files.
        let stamp = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437";
        machine.write(
            "/var/lib/kubexm/started/etcd.service",
            &format!("{stamp}\n"),
        );
        assert_eq!(machine.done(etcd::RESTARTS, &arguments), "");
        machine.write("/etc/a.conf", "newer");
        assert_eq!(machine.done(etcd::RESTARTS, &arguments), "restarts\n");
        // It does not run, so that it starts.
        machine.fake("systemctl", "exit 3");
        assert_eq!(machine.done(etcd::RESTARTS, &arguments), "");
    });
}

/// etcdctl fails if a setting is in its environment and in its options.
#[test]
fn etcdctl_gets_each_setting_once() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "etcdctl",
            "echo \"${ETCDCTL_ENDPOINTS:-} ${ETCDCTL_CACERT:-}\"",
        );
        machine.write(
            "/etc/kubexm/etcd-member/etcdctl.env",
            "# A comment.\nETCDCTL_ENDPOINTS=https://127.0.0.1:2379\nETCDCTL_CACERT=/etc/ca.crt\n",
        );
        hide_etcdctl(machine);
        let run = |environment: &str, arguments: &[&str]| {
            let before = format!("{ETCDCTL}\n{environment}");
            machine
                .run_after(&before, etcd::ETCDCTL, arguments, "")
                .printed
        };
        let settings = "https://127.0.0.1:2379 /etc/ca.crt\n";
        assert_eq!(run(":", &["member", "list"]), settings);
        assert_eq!(machine.calls(), ["etcdctl member list"]);
        assert_eq!(
            run(":", &["--endpoints=https://a:2379", "version"]),
            " /etc/ca.crt\n"
        );
        assert_eq!(
            run("export ETCDCTL_CACERT=/own.crt", &["version"]),
            "https://127.0.0.1:2379 /own.crt\n"
        );
    });
}

#[test]
fn etcd_directory_is_private_and_its_mode_is_restored() {
    use std::os::unix::fs::PermissionsExt;
    Machine::with_each_shell(|machine| {
        machine.write("/srv/etcd/lost+found/x", "");
        let mode = || {
            machine
                .at("/srv/etcd")
                .metadata()
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        std::fs::set_permissions(machine.at("/srv/etcd"), PermissionsExt::from_mode(0o751))
            .unwrap();
        assert_eq!(
            machine
                .run(etcd::FOLDER.verb("check"), &["/srv/etcd"])
                .status,
            1
        );
        machine.done(etcd::FOLDER.verb("apply"), &["/srv/etcd"]);
        assert_eq!(mode(), 0o700);
        machine.done(etcd::FOLDER.verb("check"), &["/srv/etcd"]);
        machine.done(etcd::FOLDER_RESTORE, &["/srv/etcd"]);
        assert_eq!(mode(), 0o751);
        machine.write("/srv/mixed/report.txt", "");
        let ended = machine.run(etcd::FOLDER.verb("apply"), &["/srv/mixed"]);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("\n/srv/mixed/report.txt\n"),
            "{}",
            ended.complained
        );
    });
}
