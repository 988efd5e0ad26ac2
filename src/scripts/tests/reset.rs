//! Scripts that remove directories of the cluster's programs.

use super::etcd::LINKED_ETCDCTL;
use super::machine::Machine;
use crate::undo::directories;
use crate::{etcd, kubeadm, kubernetes, os, steps};

const MARKER: &str = ".kubexm-owner";

#[test]
fn known_content_is_removed_and_everything_else_is_listed_and_kept() {
    Machine::with_each_shell(|machine| {
        machine.done(steps::DIRECTORY_CREATE, &["/srv/my data", "755"]);
        assert!(machine.has("/srv/my data/.kubexm-owner"));
        machine.write("/srv/my data/images/deep/file", "ours");
        machine.write("/srv/my data/pki/ca.crt", "ours");
        machine.write("/srv/my data/pki/oidc-ca.crt", "theirs");
        machine.write("/srv/my data/notes", "theirs");
        std::fs::create_dir(machine.at("/srv/my data/empty")).unwrap();
        let arguments = ["/srv/my data", "marked", "images", "pki/ca.crt", "pki/"];
        let kept = "kept unknown /srv/my data/empty\nkept unknown /srv/my data/notes\n\
                    kept unknown /srv/my data/pki/oidc-ca.crt\n";
        for _ in 0..2 {
            assert_eq!(machine.done(steps::DIRECTORY_REMOVE, &arguments), kept);
        }
        assert!(!machine.has("/srv/my data/images") && !machine.has("/srv/my data/pki/ca.crt"));
        std::fs::remove_file(machine.at("/srv/my data/notes")).unwrap();
        std::fs::remove_dir(machine.at("/srv/my data/empty")).unwrap();
        std::fs::remove_file(machine.at("/srv/my data/pki/oidc-ca.crt")).unwrap();
        for _ in 0..2 {
            assert_eq!(machine.done(steps::DIRECTORY_REMOVE, &arguments), "");
            assert!(!machine.has("/srv/my data"));
        }
    });
}

#[test]
fn directory_without_marker_is_kept() {
    Machine::with_each_shell(|machine| {
        machine.write("/data/images/file", "theirs");
        let printed = machine.done(steps::DIRECTORY_REMOVE, &["/data", "marked", "images"]);
        assert_eq!(printed, "kept unmarked /data\n");
        assert_eq!(machine.read("/data/images/file"), "theirs");
        // A receipt of an earlier version, for which no marker exists.
        assert_eq!(
            machine.done(steps::DIRECTORY_REMOVE, &["/data", "any", "images"]),
            ""
        );
        assert!(!machine.has("/data"));
        // An existing directory gets no marker.
        machine.write("/data/file", "theirs");
        machine.done(steps::DIRECTORY_CREATE, &["/data", "755"]);
        assert!(!machine.has(&format!("/data/{MARKER}")));
    });
}

#[test]
fn temporary_files_of_a_killed_kubelet_are_removed() {
    let path = "/var/lib/kubelet";
    let patterns = directories::content(path).patterns;
    Machine::with_each_shell(|machine| {
        machine.write("/var/lib/kubelet/.3311430239", "");
        machine.write("/var/lib/kubelet/.secret", "theirs");
        let arguments = [&[path, "any"], patterns].concat();
        let printed = machine.done(steps::DIRECTORY_REMOVE, &arguments);
        assert_eq!(printed, "kept unknown /var/lib/kubelet/.secret\n");
        assert!(!machine.has("/var/lib/kubelet/.3311430239"));
    });
}

#[test]
fn everything_in_a_volatile_directory_is_removed() {
    Machine::with_each_shell(|machine| {
        machine.write("/run/containerd/.hidden/x", "");
        machine.write("/run/containerd/io/x", "");
        assert_eq!(
            machine.done(steps::DIRECTORY_REMOVE, &["/run/containerd", "any", "."]),
            ""
        );
        assert!(!machine.has("/run/containerd"));
        machine.write("/run/xtables.lock", "");
        assert_eq!(
            machine.done(steps::DIRECTORY_REMOVE, &["/run/xtables.lock", "any", "."]),
            ""
        );
        assert!(!machine.has("/run/xtables.lock"));
    });
}

#[test]
fn protected_paths_are_kept() {
    Machine::with_each_shell(|machine| {
        machine.write("/etc/kubernetes/x", "");
        machine.write("/var/lib/dpkg/x", "");
        machine.write("/home/anna/x", "");
        for path in [
            "/",
            "/etc",
            "/usr",
            "/lib",
            "/home",
            "/home/anna",
            "/var",
            "/var/lib",
            "/var/lib/dpkg",
            "/var/lib/x/..",
            "/usr/lib/systemd",
            "/usr/local/bin",
            "/lib/modules/6.1",
            "relative",
            "/etc/ssh",
        ] {
            let printed = machine.done(steps::DIRECTORY_REMOVE, &[path, "any", "."]);
            assert_eq!(printed, format!("kept protected {path}\n"));
        }
        assert!(machine.has("/etc/kubernetes/x") && machine.has("/var/lib/dpkg/x"));
        assert!(machine.has("/home/anna/x"));
        std::os::unix::fs::symlink("/etc", machine.at("/var/lib/link")).unwrap();
        let printed = machine.done(steps::DIRECTORY_REMOVE, &["/var/lib/link", "any", "."]);
        assert_eq!(printed, "kept link /var/lib/link\n");
    });
}

#[test]
fn mounted_file_systems_are_unmounted_or_kept() {
    Machine::with_each_shell(|machine| {
        let reset = |machine: &Machine, before: &str| {
            machine.write("/disk/data", "theirs");
            machine.write("/srv/own/a pod/file", "ours");
            machine.write("/srv/own/theirs/file", "theirs");
            let mounts = format!(
                "mkdir -p '/srv/own/a pod/a disk'\nmount --bind /disk '/srv/own/a pod/a disk'\n{before}"
            );
            let arguments = ["/srv/own", "any", "a pod"];
            let ended = machine.run_after(&mounts, steps::DIRECTORY_REMOVE, &arguments, "");
            assert_eq!(ended.status, 0, "{}", ended.complained);
            assert_eq!(machine.read("/disk/data"), "theirs");
            assert_eq!(machine.read("/srv/own/theirs/file"), "theirs");
            ended.printed
        };
        assert_eq!(reset(machine, ":"), "kept unknown /srv/own/theirs/file\n");
        assert!(!machine.has("/srv/own/a pod"));
        // A disk that was mounted over the directory after the install.
        let over = "mkdir -p '/disk/a pod'; mount --bind /disk /srv/own";
        assert_eq!(reset(machine, over), "kept mounted /srv/own\n");
        assert!(machine.has("/disk/a pod") && machine.has("/srv/own/a pod/file"));
        machine.fake("umount", "exit 32");
        let printed = reset(machine, ":");
        assert!(
            printed.starts_with("kept mounted /srv/own/a pod\n"),
            "{printed}"
        );
        assert!(machine.has("/srv/own/a pod/file"));
    });
}

#[test]
fn receipt_is_removed_last_and_mounted_data_stays() {
    Machine::with_each_shell(|machine| {
        for name in [
            "receipt.jsonl",
            "done/x",
            "backup/y",
            "registry/blob",
            ".hidden",
        ] {
            machine.write(&format!("/var/lib/kubexm/{name}"), "");
        }
        machine.write("/disk/data", "theirs");
        let mount = "mount --bind /disk /var/lib/kubexm/registry";
        let ended = machine.run_after(mount, steps::RECEIPT_REMOVE, &[], "");
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (0, "kept mounted /var/lib/kubexm/registry\n")
        );
        assert_eq!(machine.read("/disk/data"), "theirs");
        assert!(
            !machine.has("/var/lib/kubexm/receipt.jsonl") && !machine.has("/var/lib/kubexm/done")
        );
        machine.done(steps::RECEIPT_REMOVE, &[]);
        assert!(!machine.has("/var/lib/kubexm"));
        machine.done(steps::RECEIPT_REMOVE, &[]);
    });
}

#[test]
fn files_of_the_site_survive_the_reset_of_kubeadm() {
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", "");
        machine.fake("crictl", "case $* in *' pods -q') echo pod1 ;; esac");
        for (path, content) in [
            ("pki/ca.key", "ours"),
            ("pki/etcd/peer.crt", "ours"),
            ("pki/sa.pub", "ours"),
            ("admin.conf", "ours"),
            ("manifests/etcd.yaml", "ours"),
            ("pki/oidc-ca.crt", "theirs"),
            ("audit-policy.yaml", "theirs"),
            ("manifests/node-agent.yaml", "theirs"),
        ] {
            machine.write(&format!("/etc/kubernetes/{path}"), content);
        }
        machine.write("/var/lib/etcd/member/wal/x", "ours");
        machine.write("/disk/data", "theirs");
        let volume = "/var/lib/kubelet/pods/1/volumes/a disk";
        let mount = format!("mkdir -p '{volume}'; mount --bind /disk '{volume}'");
        let socket = "unix:///run/containerd/containerd.sock";
        let ended = machine.run_after(&mount, kubeadm::RESET, &[socket], "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let find = std::process::Command::new("find")
            .args([
                "etc/kubernetes",
                "var/lib/etcd",
                "var/lib/kubelet",
                "-type",
                "f",
            ])
            .current_dir(machine.at("/"))
            .output()
            .unwrap();
        let found = String::from_utf8(find.stdout).unwrap();
        let mut found: Vec<&str> = found.lines().collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                "etc/kubernetes/audit-policy.yaml",
                "etc/kubernetes/manifests/node-agent.yaml",
                "etc/kubernetes/pki/oidc-ca.crt"
            ]
        );
        assert_eq!(machine.read("/disk/data"), "theirs");
        let calls = machine.calls();
        assert!(
            calls.contains(&format!("crictl --runtime-endpoint {socket} rmp -f pod1")),
            "{calls:?}"
        );
        machine.done(kubeadm::RESET, &[socket]);
    });
}

#[test]
fn damaged_record_of_kernel_settings_writes_no_other_file() {
    Machine::with_each_shell(|machine| {
        machine.write("/etc/passwd", "root");
        let lines = "/etc/passwd evil\n/proc/sys/../../etc/passwd evil\n";
        machine.write("/var/lib/kubexm/backup/sysctl", lines);
        machine.done(os::SYSCTL_RESTORE, &[]);
        assert_eq!(machine.read("/etc/passwd"), "root");
    });
}

#[test]
fn ages_and_sizes_are_printed() {
    Machine::with_each_shell(|machine| {
        assert_eq!(
            machine.done(kubernetes::SURVEY, &["etcd", "/var/lib/etcd"]),
            ""
        );
        machine.write("/var/lib/etcd/member/db", &"x".repeat(100_000));
        machine.write("/var/lib/kubexm/receipt.jsonl", "");
        machine.write("/var/lib/kubexm/done/kubeadm-init", "");
        let before = "touch -d @1763719200 /var/lib/kubexm/done/kubeadm-init";
        let arguments = ["etcd", "/var/lib/etcd", "registry", "/var/lib/registry"];
        let ended = machine.run_after(before, kubernetes::SURVEY, &arguments, "");
        let lines: Vec<&str> = ended.printed.lines().collect();
        assert_eq!(lines[0], "since 1763719200", "{}", ended.complained);
        let size = lines[1].strip_prefix("data etcd ").unwrap();
        assert!((100..200).contains(&size.parse::<u32>().unwrap()), "{size}");
        assert_eq!(lines.len(), 2);
    });
}

#[test]
fn snapshot_of_etcd_is_written_and_read_in_parts() {
    Machine::with_each_shell(|machine| {
        for kind in ["kubeadm", "systemd"] {
            let call = |verb: &'static str| {
                let script = etcd::SNAPSHOT.verb(verb);
                let kind = format!("kind={kind}");
                let arguments = [&*kind, "data=/var/lib/etcd", "part=0"];
                machine.run_after(LINKED_ETCDCTL, script, &arguments, "")
            };
            assert_ne!(call("has-data").status, 0);
            machine.write("/var/lib/etcd/member/wal/0.wal", "");
            machine.write("/var/lib/kubexm/receipt.jsonl", "");
            assert_eq!(call("has-data").status, 0);
            machine.fake(
                "crictl",
                "[ \"$1\" != ps ] || { cat /root/container; exit 0; }\nshift 3; exec \"$@\"",
            );
            machine.fake("systemctl", "");
            machine.fake("systemd-run", "");
            machine.fake(
                "etcdctl",
                "for file in \"$@\"; do :; done; echo snapshot >\"$file\"",
            );
            machine.write("/root/container", "");
            if kind == "kubeadm" {
                let ended = call("save");
                assert_eq!(ended.complained, "the container of etcd does not run\n");
            }
            machine.write("/root/container", "c0ffee\n");
            let ended = call("save");
            // A backup that is killed leaves it for a limited time.
            let timer = machine
                .calls()
                .into_iter()
                .rfind(|call| call.starts_with("systemd-run"));
            let timer = timer.expect("a timer removes the snapshot");
            assert!(
                timer.contains("--on-active=6h /bin/rm -f /var/lib/"),
                "{timer}"
            );
            assert!(timer.contains("snapshot.db "), "{timer}");
            // Also if the host starts again meanwhile.
            let boot = "/etc/tmpfiles.d/kubexm-snapshot.conf";
            let file = match kind {
                "kubeadm" => "/var/lib/etcd/kubexm-snapshot.db",
                _ => "/var/lib/kubexm/etcd-snapshot.db",
            };
            assert!(machine.has(file));
            assert_eq!(
                machine.read(boot),
                format!("r! \"{file}\"\nr! \"{file}.part\"\nr! \"{boot}\"\n")
            );
            assert_eq!(ended.printed.trim().len(), 2 + 64, "{}", ended.complained);
            assert!(ended.printed.starts_with("9 "), "{}", ended.printed);
            assert_eq!(call("read").printed, "snapshot\n");
            // The database must not fill the disk of etcd.
            machine.write("/var/lib/etcd/member/snap/db", &"x".repeat(3 << 20));
            machine.fake("df", "printf 'head\\nx 1 1 259 1%% /\\n'");
            let ended = call("save");
            assert!(ended.status == 1 && ended.complained.contains("needs 260 MiB"));
            assert!(call("read").status != 0, "the former one is gone");
            machine.fake("df", "printf 'head\\nx 1 1 260 1%% /\\n'");
            assert_eq!(call("save").status, 0);
            assert_eq!(call("remove").status, 0);
            let last = machine.calls().pop();
            assert_eq!(
                last.as_deref(),
                Some("systemctl stop kubexm-snapshot.timer")
            );
            assert!(!machine.has("/var/lib/etcd/kubexm-snapshot.db"));
            assert!(!machine.has("/var/lib/kubexm/etcd-snapshot.db") && !machine.has(boot));
            std::fs::remove_file(machine.at("/var/lib/etcd/member/wal/0.wal")).unwrap();
        }
    });
}
