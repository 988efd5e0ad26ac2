//! Scripts that remove and mount.

use super::machine::Machine;
use crate::{etcd, kubeadm, os, steps};

#[test]
fn script_gets_its_input_and_leaves_no_file() {
    Machine::with_each_shell(|machine| {
        machine.write("/run/kubexm/input-999999999", "of a killed script");
        let script = "cat; echo \" $1 $2\"; ls /run/kubexm";
        let arguments = ["6", script, "a b", "c"];
        let ended = machine.run_after("umask 022", steps::RECEIVE_INPUT, &arguments, "secret");
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (0, "secret a b c\n")
        );
        let ended = machine.run_after(":", steps::RECEIVE_INPUT, &arguments, "secre");
        assert_eq!((ended.status, ended.printed.as_str()), (1, ""));
        assert_eq!(ended.complained, "only 5 of 6 bytes of its input arrived\n");
        assert_eq!(machine.at("/run/kubexm").read_dir().unwrap().count(), 0);
    });
}

#[test]
fn swap_is_disabled_in_fstab_and_restored() {
    let fstab = "# swap\nUUID=1 / ext4 defaults 0 1\n/dev/sdb none swap sw 0 0\n/swap.img\tnone\tswap\tsw 0 0\n";
    Machine::with_each_shell(|machine| {
        machine.fake("swapoff", "");
        machine.fake("swapon", "");
        machine.write("/etc/fstab", fstab);
        let ended = machine.run(os::SWAP_OFF.verb("check"), &[]);
        assert_eq!(ended.status, 1);
        machine.done(os::SWAP_OFF.verb("apply"), &[]);
        assert_eq!(machine.calls(), ["swapoff -a"]);
        let off = "# swap\nUUID=1 / ext4 defaults 0 1\n#kubexm /dev/sdb none swap sw 0 0\n#kubexm /swap.img\tnone\tswap\tsw 0 0\n";
        assert_eq!(machine.read("/etc/fstab"), off);
        machine.write("/var/lib/kubexm/backup/swaps", "/dev/sdb\n/swap.img\n");
        machine.done(os::SWAP_ON, &[]);
        assert_eq!(machine.read("/etc/fstab"), fstab);
        assert_eq!(machine.calls(), ["swapon /dev/sdb", "swapon /swap.img"]);
    });
}

#[test]
fn missing_modules_are_loaded() {
    Machine::with_each_shell(|machine| {
        machine.fake("modprobe", "");
        let names = ["proc", "kubexm_none"];
        let ended = machine.run(os::MODULES.verb("check"), &names);
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (1, "kubexm_none is not loaded\n")
        );
        machine.done(os::MODULES.verb("apply"), &["kubexm_none"]);
        assert_eq!(machine.calls(), ["modprobe kubexm_none"]);
        let ended = machine.run(os::SYSCTL.verb("apply"), &["kubexm.none", "1"]);
        assert_eq!(ended.complained, "the kernel has no setting kubexm.none\n");
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

#[test]
fn other_patches_are_removed() {
    Machine::with_each_shell(|machine| {
        for name in ["one.yaml", "two.yaml", "old one.yaml"] {
            machine.write(&format!("/etc/kubexm/patches/{name}"), "");
        }
        let arguments = ["/etc/kubexm/patches", "one.yaml", "two.yaml"];
        let ended = machine.run(kubeadm::PATCHES.verb("check"), &arguments);
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (1, "contains old one.yaml\n")
        );
        machine.done(kubeadm::PATCHES.verb("remove"), &arguments);
        machine.done(kubeadm::PATCHES.verb("check"), &arguments);
        assert!(
            machine.has("/etc/kubexm/patches/one.yaml")
                && machine.has("/etc/kubexm/patches/two.yaml")
        );
    });
}
