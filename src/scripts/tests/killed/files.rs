//! Files, directories, receipts and the storage of the registry.

use super::super::machine::Machine;
use super::{
    Case, call, commands, kill_everywhere, kill_everywhere_and, listing, only_lists, run, upload,
    with,
};
use crate::{etcd, host, kubeadm, kubernetes, markers, registry, steps};

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn files() {
    // The script also creates the directory.
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: None,
        apply: upload("/etc/app/deep/a.conf"),
        undo: vec![call(
            steps::FILE_REMOVE,
            &["/etc/app/deep/a.conf", "/etc/app/deep", "/etc/app"],
        )],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn files_that_existed() {
    if only_lists([steps::FILE_PREPARE, steps::FILE_RESTORE]) {
        return;
    }
    let existing = |machine: &Machine| machine.write("/etc/app/a b.conf", "theirs");
    let copy = "/var/lib/kubexm/backup/$(printf %s '/etc/app/a b.conf' | sha256sum | cut -c1-32)";
    let backup = std::process::Command::new("sh")
        .args(["-c", &format!("echo {copy}")])
        .output()
        .unwrap();
    let backup = String::from_utf8(backup.stdout).unwrap();
    let backup: &'static str = Box::leak(backup.trim().to_owned().into_boxed_str());
    let machine = Machine::new("bash");
    existing(&machine);
    let prepare = call(steps::FILE_PREPARE, &["path=/etc/app/a b.conf"]);
    for at in commands() {
        let killed = run(&machine, ":", &prepare, Some(at));
        assert_eq!(machine.read("/etc/app/a b.conf"), "theirs");
        let copied = machine.has(backup);
        assert!(
            !copied || machine.read(backup) == "theirs",
            "an incomplete copy has its name"
        );
        if !killed {
            assert!(copied);
            break;
        }
    }
    // kubexm asks this script before it writes the file.
    for at in commands() {
        let machine = Machine::new("bash");
        existing(&machine);
        let original = listing(&machine);
        run(&machine, ":", &prepare, None);
        let killed = run(&machine, ":", &upload("/etc/app/a b.conf"), Some(at));
        let restore = call(steps::FILE_RESTORE, &["/etc/app/a b.conf", backup]);
        run(&machine, ":", &restore, Some(at));
        run(&machine, ":", &restore, None);
        run(&machine, ":", &call(steps::RECEIPT_REMOVE, &[]), None);
        assert_eq!(listing(&machine), original, "killed at command {at}");
        if !killed {
            break;
        }
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn blocks_of_files() {
    for (before, state) in [
        (
            (|machine: &Machine| machine.write("/etc/hosts", "127.0.0.1 localhost\n"))
                as fn(&Machine),
            "ended",
        ),
        (
            |machine: &Machine| machine.write("/etc/hosts", "127.0.0.1 localhost"),
            "unended",
        ),
        (|_| {}, "absent"),
    ] {
        let block = "# kubexm begin\n10.0.0.1 node1\n# kubexm end\n";
        kill_everywhere(&Case {
            before,
            enter: ":",
            check: None,
            apply: call(steps::BLOCK_EDIT, &["/etc/hosts", "put", block]),
            undo: vec![call(steps::BLOCK_EDIT, &["/etc/hosts", "remove", state])],
        });
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn directories_and_markers() {
    kill_everywhere(&Case {
        before: |machine| {
            machine.write("/opt/theirs", "");
            machine.write("/srv/theirs", "");
        },
        enter: ":",
        check: None,
        apply: call(
            steps::DIRECTORY_CREATE,
            &[
                "/var/lib/data",
                "711",
                "/opt/cni",
                "755",
                "/srv/a/b/c",
                "711",
            ],
        ),
        undo: vec![
            call(steps::DIRECTORY_REMOVE, &["/srv/a/b/c", "marked", "member"]),
            call(steps::PARENTS_REMOVE, &["/srv/a/b", "/srv/a"]),
            call(steps::DIRECTORY_REMOVE, &["/opt/cni", "marked", "bin/"]),
            call(
                steps::DIRECTORY_REMOVE,
                &["/var/lib/data", "marked", "member"],
            ),
        ],
    });
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: Some(call(markers::CHECK, &["kubeadm-init"])),
        apply: call(markers::SET, &["kubeadm-init"]),
        undo: vec![call(markers::REMOVE, &["kubeadm"])],
    });
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: None,
        apply: call(host::CLAIM, &["v1 id name"]),
        undo: vec![call(steps::RECEIPT_REMOVE, &[])],
    });
    kill_everywhere(&Case {
        before: |_| {},
        enter: "mkdir -p /var/lib/kubexm && echo id >/var/lib/kubexm/cluster",
        check: None,
        apply: call(host::BEGUN, &["{\"serial\":1}"]),
        undo: vec![call(steps::RECEIPT_REMOVE, &[])],
    });
    kill_everywhere(&Case {
        before: |machine| machine.write("/run/kubexm/etcd-initial.env", ""),
        enter: ":",
        check: Some(call(
            etcd::FORMED.verb("check"),
            &["/run/kubexm/etcd-initial.env"],
        )),
        apply: call(etcd::FORMED.verb("mark"), &["/run/kubexm/etcd-initial.env"]),
        undo: vec![call(steps::RECEIPT_REMOVE, &[])],
    });
    kill_everywhere(&Case {
        before: |machine| {
            for name in ["a.yaml", "removed by the user.yaml"] {
                machine.write(&format!("/etc/kubexm/patches/{name}"), "");
            }
        },
        enter: ":",
        check: Some(call(
            kubeadm::PATCHES.verb("check"),
            &["/etc/kubexm/patches", "a.yaml"],
        )),
        apply: call(
            kubeadm::PATCHES.verb("remove"),
            &["/etc/kubexm/patches", "a.yaml"],
        ),
        undo: vec![],
    });
    kill_everywhere(&Case {
        before: |machine| machine.write("/var/lib/kubelet/config.yaml", "a"),
        enter: ":",
        check: Some(call(
            kubernetes::FILE_MODES.verb("check"),
            &["/var/lib/kubelet/config.yaml", "/none"],
        )),
        apply: call(
            kubernetes::FILE_MODES.verb("apply"),
            &["/var/lib/kubelet/config.yaml", "/none"],
        ),
        undo: vec![],
    });
    kill_everywhere(&Case {
        before: |machine| machine.write("/srv/etcd/member/wal", ""),
        enter: ":",
        check: Some(call(etcd::FOLDER.verb("check"), &["/srv/etcd"])),
        apply: call(etcd::FOLDER.verb("apply"), &["/srv/etcd"]),
        undo: vec![call(etcd::FOLDER_RESTORE, &["/srv/etcd"])],
    });
    kill_everywhere(&Case {
        before: |machine| machine.write("/etc/kubernetes/x", ""),
        enter: "systemctl() { return 1; }",
        check: Some(call(
            kubernetes::KUBELET_SURROUNDINGS.verb("check"),
            &["/etc/kubernetes/manifests", "/etc/kubernetes/resolv.conf"],
        )),
        apply: call(
            kubernetes::KUBELET_SURROUNDINGS.verb("apply"),
            &["/etc/kubernetes/manifests", "/etc/kubernetes/resolv.conf"],
        ),
        undo: vec![call(
            kubernetes::KUBELET_SURROUNDINGS_REMOVE,
            &["/etc/kubernetes/manifests", "/etc/kubernetes/resolv.conf"],
        )],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn receipts() {
    kill_everywhere(&Case {
        before: |machine| {
            machine.write(
                "/var/lib/kubexm/receipt.jsonl",
                "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n",
            );
        },
        enter: ":",
        check: None,
        apply: with(steps::RECEIPT_FORGET, &[], "{\"b\":2}\n{\"d\":4}\n"),
        undo: vec![],
    });
    if only_lists([steps::RECEIPT_APPEND, steps::RECEIPT_REMOVE]) {
        return;
    }
    // A receipt has all complete lines that were written before.
    let machine = Machine::new("bash");
    for at in commands() {
        if !run(
            &machine,
            ":",
            &with(steps::RECEIPT_APPEND, &[], "{\"a\":1}\n"),
            Some(at),
        ) {
            break;
        }
    }
    let receipt = machine.read("/var/lib/kubexm/receipt.jsonl");
    assert!(
        receipt
            .lines()
            .filter(|line| !line.is_empty())
            .all(|line| line == "{\"a\":1}"),
        "{receipt:?}"
    );
    // A killed removal keeps the receipt until everything else is gone, and the next one removes the rest.
    for at in commands() {
        let machine = Machine::new("bash");
        let original = listing(&machine);
        for path in ["receipt.jsonl", "cluster", "done/x", "backup/y", ".hidden"] {
            machine.write(&format!("/var/lib/kubexm/{path}"), "1");
        }
        let remove = call(steps::RECEIPT_REMOVE, &[]);
        let killed = run(&machine, ":", &remove, Some(at));
        let left = ["done/x", "backup/y", ".hidden"].map(|path| format!("/var/lib/kubexm/{path}"));
        assert!(
            machine.has("/var/lib/kubexm/receipt.jsonl")
                || !left.iter().any(|path| machine.has(path)),
            "killed at command {at}"
        );
        run(&machine, ":", &remove, None);
        assert_eq!(listing(&machine), original, "killed at command {at}");
        if !killed {
            break;
        }
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn registry_content() {
    let links = "repositories/a/_layers/sha256/1/link sha256:4444\nrepositories/a/_manifests/tags/v1/current/link sha256:4444\n";
    kill_everywhere(&Case {
        before: |machine| {
            let blobs = "/var/lib/registry/docker/registry/v2/blobs";
            machine.write(&format!("{blobs}/sha256/44/4444/data"), "");
        },
        enter: ":",
        check: None,
        apply: with(registry::LINK, &["/var/lib/registry"], links),
        undo: vec![call(
            steps::DIRECTORY_REMOVE,
            &[
                "/var/lib/registry",
                "any",
                "docker/registry/v2/repositories",
                ".kubexm-links-*",
            ],
        )],
    });
    let data = "/var/lib/registry";
    let remove = || {
        vec![call(
            steps::DIRECTORY_REMOVE,
            &[data, "any", "docker", ".kubexm-staging-*"],
        )]
    };
    let blob = "2 4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865\n1\n\
                end 4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865\nall\n";
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: None,
        apply: with(registry::RECEIVE, &[data], blob),
        undo: remove(),
    });
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: Some(call(registry::FOLDER.verb("check"), &[data])),
        apply: call(registry::FOLDER.verb("apply"), &[data]),
        undo: remove(),
    });
    // A reset removes the directory of an install with its mode.
    kill_everywhere(&Case {
        before: |machine| machine.write("/var/lib/registry/.kubexm-owner", ""),
        enter: ":",
        check: Some(call(registry::FOLDER.verb("check"), &[data])),
        apply: call(registry::FOLDER.verb("apply"), &[data]),
        undo: vec![],
    });
    kill_everywhere(&Case {
        before: super::super::registry::storage,
        enter: ":",
        check: None,
        apply: call(registry::GARBAGE.verb("remove"), &["/srv/registry"]),
        undo: vec![],
    });
    let paths = "repositories/r.io/b/_manifests/revisions/sha256/9999999999999999999999999999999999999999999999999999999999999999\n\
                 repositories/r.io/a/_manifests/tags/v1\n";
    kill_everywhere(&Case {
        before: super::super::registry::storage,
        enter: ":",
        check: None,
        apply: with(registry::REMOVE.verb("apply"), &["/srv/registry"], paths),
        undo: vec![],
    });
}

/// Returns a tar archive of one file.
fn archive(name: &str, content: &str) -> &'static str {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), content).unwrap();
    let tar = std::process::Command::new("tar")
        .args(["-c", name])
        .current_dir(folder.path())
        .output()
        .unwrap();
    Box::leak(String::from_utf8(tar.stdout).unwrap().into_boxed_str())
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn installed_files() {
    let digest = "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865";
    let path = "/opt/cni/bin/bridge";
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: None,
        apply: with(
            steps::INSTALL_RECEIVE,
            &["0", path, digest, "755"],
            archive("0", "1\n"),
        ),
        undo: vec![call(
            steps::FILE_REMOVE,
            &[path, "/opt/cni/bin", "/opt/cni", "/opt"],
        )],
    });
}

/// The input may be secret. A killed script leaves it until the next one.
#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn input() {
    let case = Case {
        before: |machine| machine.write("/run/x", ""),
        enter: ":",
        check: None,
        apply: with(
            steps::RECEIVE_INPUT,
            &["7", "umask 077; cat >\"$1\"", "/root/received"],
            "secret\n",
        ),
        undo: vec![call(steps::FILE_REMOVE, &["/root/received"])],
    };
    kill_everywhere_and(&case, |machine| {
        let left = std::fs::read_dir(machine.at("/run/kubexm")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
    });
}
