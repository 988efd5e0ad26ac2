//! Scripts that change the operating system.

use super::machine::{MODPROBE, Machine};
use crate::os;

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
fn time_zone_is_set_and_restored() {
    const ZONE: &str = "Europe/Berlin";
    const MOUNT: &str = "mkdir -p /root/share && mount --bind /root/share /usr/share";
    Machine::with_each_shell(|machine| {
        let run = |verb| machine.run_after(MOUNT, os::TIME_ZONE.verb(verb), &[ZONE], "");
        let link = |target: &str| {
            let _ = std::fs::remove_file(machine.at("/etc/localtime"));
            std::os::unix::fs::symlink(target, machine.at("/etc/localtime")).unwrap();
        };
        let localtime = || std::fs::read_link(machine.at("/etc/localtime")).ok();
        let missing = run("apply");
        assert_eq!(missing.status, 1);
        assert!(missing.complained.contains("install the package tzdata"));
        machine.write("/root/share/zoneinfo/Europe/Berlin", "");
        // A minimal system has no time zone.
        assert_eq!(run("check").status, 1);
        assert_eq!(run("apply").status, 0);
        assert_eq!(run("check").status, 0);
        machine.done(os::TIME_ZONE_RESTORE, &[]);
        assert_eq!(localtime(), None);
        std::fs::remove_dir_all(machine.at("/var/lib/kubexm")).unwrap();

        link("../usr/share/zoneinfo/Etc/UTC");
        machine.write("/etc/timezone", "Etc/UTC\n");
        assert_eq!(run("check").status, 1);
        assert_eq!(run("apply").status, 0);
        let name = machine.read("/etc/timezone");
        assert_eq!((run("check").status, name), (0, format!("{ZONE}\n")));
        // The link of timedatectl means the same.
        link("../usr/share/zoneinfo/Europe/Berlin");
        assert_eq!(run("check").status, 0);
        machine.done(os::TIME_ZONE_RESTORE, &[]);
        assert_eq!(localtime(), Some("../usr/share/zoneinfo/Etc/UTC".into()));
        assert_eq!(machine.read("/etc/timezone"), "Etc/UTC\n");
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
        machine.done(os::MODULES_UNLOAD, &[]);
        assert_eq!(machine.calls(), ["modprobe -r kubexm_none"]);
        machine.done(os::MODULES_UNLOAD, &[]);
        assert!(machine.calls().is_empty());
        let ended = machine.run(os::SYSCTL.verb("apply"), &["kubexm.none", "1"]);
        assert_eq!(ended.complained, "the kernel has no setting kubexm.none\n");
    });
}

#[test]
fn modules_that_something_uses_or_others_loaded_stay() {
    Machine::with_each_shell(|machine| {
        machine.fake("modprobe", MODPROBE);
        machine.write("/sys/module/kubexm_own/refcnt", "0\n");
        machine.write("/sys/class/net/br0/bridge/bridge_id", "");
        let load = os::MODULES.verb("apply");
        let names = ["kubexm_own", "kubexm_a", "kubexm_used"];
        // The kernel of this machine may have it.
        machine.write("/sys/module/br_netfilter/refcnt", "0\n");
        machine.write("/var/lib/kubexm/done/module-br_netfilter", "");
        let ended = machine.run(load, &names);
        assert_eq!((ended.status, ended.complained.as_str()), (0, ""));
        let ended = machine.run(os::MODULES_UNLOAD, &[]);
        assert_eq!(ended.status, 0);
        assert_eq!(
            ended.printed,
            "kept used br_netfilter\nkept used kubexm_used\n"
        );
        let stay = |name: &str| machine.has(&format!("/sys/module/{name}"));
        assert_eq!(names.map(stay), [true, false, true]);
        assert!(stay("br_netfilter"));
    });
}
