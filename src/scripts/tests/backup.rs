//! Scripts of backups and restores. The programs are stand-ins.

use std::os::unix::fs::PermissionsExt;

use super::machine::{Machine, SYSTEMCTL};
use crate::etcd::{RESTORE, SNAPSHOT};
use crate::kubeadm::AUTHORITIES;
use crate::kubernetes::{CONTROL_PLANE, RESTORED};
use crate::steps::READ_FILES;

/// The arguments for the only member of a cluster.
pub(super) const MEMBER: [&str; 7] = [
    "id=20260131T093000Z",
    "kind=kubeadm",
    "data=/var/lib/etcd",
    "name=node1",
    "peer=https://192.0.2.11:2380",
    "members=node1=https://192.0.2.11:2380",
    "bump=1000000000",
];
const UNITS: [&str; 7] = [
    "id=20260131T093000Z",
    "kind=systemd",
    "data=/var/lib/etcd",
    "name=node1",
    "peer=https://192.0.2.11:2380",
    "members=node1=https://192.0.2.11:2380",
    "bump=1000000000",
];
/// The arguments for the static pods of a control plane.
pub(super) const PODS: [&str; 4] = ["r1", "kubeadm", "kube-apiserver", "kube-scheduler"];

/// Adds a member with data, and the files of a restore.
pub(super) fn with_member(machine: &Machine) {
    machine.write("/var/lib/etcd/member/wal/0.wal", "old");
    machine.write(
        "/var/lib/kubexm/restore/20260131T093000Z/snapshot.db",
        "snapshot",
    );
    let path = "/var/lib/kubexm/restore/20260131T093000Z/etcdutl";
    machine.write(
        path,
        "#!/bin/sh\nfor word in \"$@\"; do\n[ \"${last:-}\" != --data-dir ] || data=$word\nlast=$word\ndone\n\
         [ ! -e /root/fake/damaged ] || { echo 'expected sha256' >&2; exit 1; }\n\
         mkdir -p \"$data/member/wal\"\necho new >\"$data/member/wal/0.wal\"\necho \"$*\" >\"$data/member/arguments\"\n",
    );
    std::fs::set_permissions(machine.at(path), PermissionsExt::from_mode(0o700)).unwrap();
    with_runtime(machine);
}

/// Adds a runtime whose running containers are the names of files in `/root/running`.
pub(super) fn with_runtime(machine: &Machine) {
    machine.fake(
        "crictl",
        "case $1 in\n\
         ps) for word in \"$@\"; do :; done; name=${word#^}; name=${name%$}\n\
         [ ! -e \"/root/running/$name\" ] || echo \"$name\" ;;\n\
         stop) rm -f \"/root/running/$4\" ;;\n\
         pods) [ ! -e /root/pods ] || cat /root/pods ;;\n\
         inspectp) echo '\"network\": \"POD\"' ;;\n\
         rmp) rm -f /root/pods ;;\n\
         exec) shift 3; exec \"$@\" ;;\n\
         esac",
    );
    machine.fake("systemctl", SYSTEMCTL);
    machine.fake("sleep", "");
    machine.write("/root/units/kubelet.service.active", "");
}

#[test]
fn data_is_replaced_and_the_former_data_stays() {
    Machine::with_each_shell(|machine| {
        with_member(machine);
        assert_eq!(machine.run(RESTORE.verb("prepared"), &MEMBER).status, 1);
        machine.done(RESTORE.verb("prepare"), &MEMBER);
        machine.done(RESTORE.verb("prepared"), &MEMBER);
        let arguments = machine.read("/var/lib/etcd/restore-20260131T093000Z/member/arguments");
        for part in [
            "--name node1 ",
            "--initial-cluster node1=https://192.0.2.11:2380 ",
            "--initial-cluster-token 20260131T093000Z ",
            "--bump-revision 1000000000 --mark-compacted",
        ] {
            assert!(arguments.contains(part), "{part}: {arguments}");
        }
        assert_eq!(machine.read("/var/lib/etcd/member/wal/0.wal"), "old");
        // Not while etcd runs.
        machine.write("/root/running/etcd", "");
        let refused = machine.run(RESTORE.verb("replace"), &MEMBER);
        assert_eq!(
            (refused.status, refused.complained.as_str()),
            (1, "etcd still runs\n")
        );
        std::fs::remove_file(machine.at("/root/running/etcd")).unwrap();
        machine.done(RESTORE.verb("replace"), &MEMBER);
        machine.done(RESTORE.verb("replaced"), &MEMBER);
        assert_eq!(machine.read("/var/lib/etcd/member/wal/0.wal"), "new\n");
        assert_eq!(
            machine.read("/var/lib/etcd/member.before-20260131T093000Z/wal/0.wal"),
            "old"
        );
        machine.done(RESTORE.verb("remove"), &MEMBER);
        machine.done(RESTORE.verb("tidy"), &MEMBER);
        assert!(
            !machine.has("/var/lib/kubexm/restore")
                && !machine.has("/var/lib/etcd/restore-20260131T093000Z")
        );
        assert!(machine.has("/var/lib/etcd/member.before-20260131T093000Z"));
    });
}

/// Root changed the modes of all files behind a link of a compromised etcd.
#[test]
fn link_in_the_data_directory_is_not_followed() {
    Machine::with_each_shell(|machine| {
        with_member(machine);
        machine.write("/srv/site/page", "x");
        let path = machine.at("/srv/site/page");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let program = "/var/lib/kubexm/restore/20260131T093000Z/etcdutl";
        let exchange = "cd /var/lib/etcd\nmv restore-20260131T093000Z moved\nln -s /srv/site restore-20260131T093000Z\n";
        let honest = machine.read(program);
        machine.write(program, &format!("{honest}{exchange}"));
        let refused = machine.run(RESTORE.verb("prepare"), &MEMBER);
        assert_eq!(
            (refused.status, refused.complained.as_str()),
            (
                1,
                "/var/lib/etcd/restore-20260131T093000Z is not the directory that this restore has created\n"
            )
        );
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert_eq!(machine.run(RESTORE.verb("prepared"), &MEMBER).status, 1);
        assert_eq!(machine.read("/var/lib/etcd/member/wal/0.wal"), "old");
    });
}

#[test]
fn damaged_snapshot_changes_nothing() {
    Machine::with_each_shell(|machine| {
        with_member(machine);
        machine.write("/root/fake/damaged", "");
        let refused = machine.run(RESTORE.verb("prepare"), &MEMBER);
        assert_eq!(refused.status, 1);
        assert!(
            refused
                .complained
                .contains("etcdutl cannot restore the snapshot:\nexpected sha256")
        );
        assert_eq!(machine.run(RESTORE.verb("prepared"), &MEMBER).status, 1);
        assert_eq!(machine.read("/var/lib/etcd/member/wal/0.wal"), "old");
    });
}

#[test]
fn restored_unit_does_not_begin_another_cluster() {
    Machine::with_each_shell(|machine| {
        with_member(machine);
        machine.fake("chown", "");
        machine.fake("systemctl", "echo inactive; exit 3");
        machine.write("/run/kubexm/etcd-initial.env", "");
        machine.done(RESTORE.verb("prepare"), &UNITS);
        machine.done(RESTORE.verb("replace"), &UNITS);
        assert!(machine.has("/var/lib/kubexm/done/etcd-formed"));
        assert!(!machine.has("/run/kubexm/etcd-initial.env"));
        assert!(
            machine
                .calls()
                .iter()
                .any(|call| call == "chown -Rh etcd:etcd data")
        );
    });
}

#[test]
fn static_pods_wait_until_they_start_again() {
    Machine::with_each_shell(|machine| {
        with_runtime(machine);
        for name in ["kube-apiserver", "kube-scheduler", "kube-vip"] {
            machine.write(&format!("/etc/kubernetes/manifests/{name}.yaml"), name);
            machine.write(&format!("/root/running/{name}"), "");
        }
        let check = machine.run(CONTROL_PLANE.verb("stopped"), &PODS);
        assert_eq!(
            (check.status, check.printed.as_str()),
            (1, "runs: kube-apiserver kube-scheduler\n")
        );
        machine.done(CONTROL_PLANE.verb("stop"), &PODS);
        machine.done(CONTROL_PLANE.verb("stopped"), &PODS);
        assert!(
            machine.has("/etc/kubernetes/manifests/kube-vip.yaml")
                && machine.has("/root/running/kube-vip")
        );
        assert!(!machine.has("/etc/kubernetes/manifests/kube-apiserver.yaml"));
        assert_eq!(machine.run(CONTROL_PLANE.verb("started"), &PODS).status, 1);
        // A restore of another backup finds them.
        let mut other = PODS;
        other[0] = "r2";
        machine.done(CONTROL_PLANE.verb("start"), &other);
        machine.done(CONTROL_PLANE.verb("started"), &other);
        assert_eq!(
            machine.read("/etc/kubernetes/manifests/kube-apiserver.yaml"),
            "kube-apiserver"
        );
        let missing = machine.run(CONTROL_PLANE.verb("start"), &["r1", "kubeadm", "etcd"]);
        assert!(
            missing.complained.contains("has etcd.yaml\nhint: "),
            "{}",
            missing.complained
        );
    });
}

#[test]
fn kubelets_restart_once() {
    Machine::with_each_shell(|machine| {
        with_runtime(machine);
        let units = ["r1", "systemd", "kubelet"];
        assert_eq!(
            machine.run(CONTROL_PLANE.verb("restarted"), &units).status,
            1
        );
        machine.done(CONTROL_PLANE.verb("restart"), &units);
        machine.done(CONTROL_PLANE.verb("restarted"), &units);
        assert!(
            machine
                .calls()
                .contains(&"systemctl restart kubelet.service".to_owned())
        );
    });
}

#[test]
fn api_server_must_accept_an_object() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "kubectl",
            "case $* in\n\
             *readyz*) cat /root/fake/readyz ;;\n\
             esac",
        );
        machine.write("/root/fake/readyz", "[+]ping ok\n[+]etcd ok\n");
        let arguments = ["https://192.0.2.11:6443", "kubexm-restore"];
        machine.done(RESTORED, &arguments);
        let create = |call: &String| call.contains(" create configmap kubexm-restore ");
        assert!(machine.calls().iter().any(create));
        machine.write("/root/fake/readyz", "[+]ping ok\n");
        assert_eq!(machine.run(RESTORED, &arguments).status, 1);
    });
}

#[test]
fn files_of_a_host_are_read_without_copies_of_kubeadm() {
    Machine::with_each_shell(|machine| {
        for path in [
            "/etc/kubernetes/pki/ca.key",
            "/etc/kubernetes/tmp/kubeadm-backup-etcd/member",
            "/etc/systemd/system/kubelet.service",
        ] {
            machine.write(path, "x");
        }
        let paths = [
            "/etc/kubernetes",
            "/etc/systemd/system/kube*.service",
            "/etc/missing",
        ];
        let archive = machine.done(READ_FILES, &paths);
        assert!(archive.contains("./etc/kubernetes/pki/ca.key"), "{archive}");
        assert!(archive.contains("./etc/systemd/system/kubelet.service"));
        assert!(!archive.contains("kubeadm-backup-etcd"));
        assert_eq!(machine.done(READ_FILES, &["/etc/missing"]), "");
    });
}

/// Returns a tar archive of files with the content `x`.
pub(super) fn archive(names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        let field = |text: &str, length: usize| format!("{text:\0<length$}");
        let before = [
            field(name, 100),
            field("0000600", 8),
            field("0000000", 8),
            field("0000000", 8),
            field("00000000001", 12),
            field("00000000000", 12),
        ]
        .concat();
        let after = field("0", 356);
        let sum: u32 = format!("{before}        {after}")
            .bytes()
            .map(u32::from)
            .sum();
        text.push_str(&format!("{before}{sum:06o}\0 {after}{}", field("x", 512)));
    }
    text + &"\0".repeat(1024)
}

#[test]
fn given_authorities_replace_none() {
    Machine::with_each_shell(|machine| {
        let of_site = ["ca.crt", "ca.key"];
        let ended = machine.run_after(":", AUTHORITIES.verb("apply"), &of_site, &archive(&of_site));
        assert_eq!((ended.status, ended.complained.as_str()), (0, ""));
        machine.done(AUTHORITIES.verb("check"), &of_site);
        // A load balancer in a pod reads the CA, and is not root.
        let mode = |path: &str| machine.at(path).metadata().unwrap().permissions().mode() & 0o777;
        let modes = ["crt", "key"].map(|end| mode(&format!("/etc/kubernetes/pki/ca.{end}")));
        assert_eq!(modes, [0o644, 0o600]);
        let names = [
            "ca.crt",
            "ca.key",
            "etcd/ca.key",
            "front-proxy-ca.crt",
            "front-proxy-ca.key",
            "sa.key",
            "sa.pub",
        ];
        assert_eq!(machine.run(AUTHORITIES.verb("check"), &names).status, 1);
        machine.write("/etc/kubernetes/pki/ca.crt", "known");
        let ended = machine.run_after(":", AUTHORITIES.verb("apply"), &names, &archive(&names));
        assert_eq!((ended.status, ended.complained.as_str()), (0, ""));
        machine.done(AUTHORITIES.verb("check"), &names);
        assert_eq!(machine.read("/etc/kubernetes/pki/ca.crt"), "known");
        assert_eq!(machine.read("/etc/kubernetes/pki/etcd/ca.key"), "x");
    });
}

#[test]
fn snapshot_is_described_by_the_program_of_the_member() {
    Machine::with_each_shell(|machine| {
        machine.write("/var/lib/etcd/member/wal/0.wal", "");
        machine.write("/root/running/etcd", "");
        with_runtime(machine);
        machine.fake(
            "etcdutl",
            "echo '{\"hash\":1,\"revision\":42,\"totalKey\":3}'",
        );
        for kind in ["kind=kubeadm", "kind=systemd"] {
            let printed = machine.done(SNAPSHOT.verb("describe"), &[kind, "data=/var/lib/etcd"]);
            assert_eq!(printed, "{\"hash\":1,\"revision\":42,\"totalKey\":3}\n");
        }
        let member = ["kind=systemd", "data=/var/lib/etcd"];
        let program = machine.done(SNAPSHOT.verb("program"), &member);
        assert!(program.starts_with("/usr/local/bin/etcdutl "), "{program}");
        let part = machine.done(
            SNAPSHOT.verb("read-program"),
            &[member[0], member[1], "part=0"],
        );
        assert!(part.starts_with("#!/bin/sh\n"));
    });
}

/// etcd ends if its disk is full, and all members get the snapshot at the same time.
#[test]
fn snapshot_is_not_sent_without_space() {
    Machine::with_each_shell(|machine| {
        let folder = "/var/lib/kubexm";
        std::fs::create_dir_all(machine.at(folder)).unwrap();
        std::fs::create_dir_all(machine.at("/var/lib/etcd")).unwrap();
        let one = "mount -t tmpfs -o size=400m none /var/lib";
        let two = "mount -t tmpfs -o size=300m none /var/lib/kubexm\nmount -t tmpfs -o size=400m none /var/lib/etcd";
        for (mounts, mib, is_enough) in [
            (one, 5, true),
            (one, 20, false),
            (two, 14, true),
            // The snapshot, and what etcdutl writes.
            (two, 60, false),
        ] {
            let bytes = format!("bytes={}", mib * 1024 * 1024);
            let arguments: Vec<&str> = MEMBER.into_iter().chain([bytes.as_str()]).collect();
            let ended = machine.run_after(mounts, RESTORE.verb("space"), &arguments, "");
            assert_eq!(
                ended.status == 0,
                is_enough,
                "{mounts} {mib}: {}",
                ended.complained
            );
            assert!(is_enough || ended.complained.contains("MiB of free space"));
        }
        // Nothing is sent again.
        machine.write("/var/lib/kubexm/restore/20260131T093000Z/prepared", "");
        let arguments: Vec<&str> = MEMBER.into_iter().chain(["bytes=99999999999999"]).collect();
        machine.done(RESTORE.verb("space"), &arguments);
    });
}

#[test]
fn files_of_a_site_beside_the_data_stay() {
    Machine::with_each_shell(|machine| {
        machine.write("/var/lib/etcd/restore-2024/plan.txt", "x");
        machine.write("/var/lib/etcd/restore-20260131T093000Z/member/x", "x");
        assert_eq!(machine.run(RESTORE.verb("tidy"), &MEMBER).status, 1);
        machine.done(RESTORE.verb("remove"), &MEMBER);
        machine.done(RESTORE.verb("tidy"), &MEMBER);
        assert!(machine.has("/var/lib/etcd/restore-2024/plan.txt"));
    });
}
