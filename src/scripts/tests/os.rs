//! Scripts that change the operating system.

use super::machine::{MODPROBE, Machine, SYSTEMCTL};
use crate::os;

/// Hides the swap of this machine.
const NO_SWAP: &str = "echo Filename >/root/no-swap && mount --bind /root/no-swap /proc/swaps";

#[test]
fn swap_is_disabled_in_fstab_and_restored() {
    let fstab = "# swap\nUUID=1 / ext4 defaults 0 1\n/dev/sdb none swap sw 0 0\n/swap.img\tnone\tswap\tsw 0 0\n";
    Machine::with_each_shell(|machine| {
        machine.fake("swapoff", "");
        machine.fake("swapon", "");
        machine.fake("systemctl", "");
        machine.write("/etc/fstab", fstab);
        let ended = machine.run(os::SWAP_OFF.verb("check"), &[]);
        assert_eq!(ended.status, 1);
        machine.done(os::SWAP_OFF.verb("apply"), &[]);
        let list = "systemctl list-unit-files --no-legend --plain *.swap zramswap.service zram-config.service dphys-swapfile.service swapspace.service systemd-swap.service";
        let calls = [list, "swapoff -a", "systemctl daemon-reload", list];
        assert_eq!(machine.calls(), calls);
        let off = "# swap\nUUID=1 / ext4 defaults 0 1\n#kubexm /dev/sdb none swap sw 0 0\n#kubexm /swap.img\tnone\tswap\tsw 0 0\n";
        assert_eq!(machine.read("/etc/fstab"), off);
        machine.write("/var/lib/kubexm/backup/swaps", "/dev/sdb\n/swap.img\n");
        machine.done(os::SWAP_ON, &[]);
        assert_eq!(machine.read("/etc/fstab"), fstab);
        assert_eq!(machine.calls(), ["swapon /dev/sdb", "swapon /swap.img"]);
    });
}

/// The kernel and /etc/fstab have no swap, and the next boot starts these units.
#[test]
fn units_that_turn_swap_on_are_masked_or_disabled_and_restored() {
    Machine::with_each_shell(|machine| {
        machine.fake("swapoff", "");
        machine.fake("swapon", "");
        machine.fake(
            "systemctl",
            "case $* in list-unit-files*) cat /root/units ;; *is-active*zram*) echo active ;; is-active*) echo inactive; exit 3 ;;
             show*disk*) echo SourcePath=/etc/fstab ;; show*vendor*) echo WantedBy=swap.target ;;
             show*site*) echo SourcePath=; echo WantedBy=; ! [ -L /etc/systemd/system/multi-user.target.requires/site.swap ] || echo RequiredBy=multi-user.target ;; show*) echo SourcePath=; echo WantedBy=; echo RequiredBy= ;; esac",
        );
        let units = "disk.swap generated -\ndev-zram0.swap generated -\nold.swap masked enabled\nown.swap enabled enabled\n\
                     off.swap disabled -\nsite.swap static -\nswapspace.service enabled enabled\nunused.swap static -\nvendor.swap static -\nzramswap.service enabled enabled\n";
        machine.write("/root/units", units);
        machine.write("/etc/systemd/system/own.swap", "");
        // Without a section [Install], only the record knows where the link was.
        machine.write("/etc/systemd/system/site.swap", "");
        machine.write(
            "/etc/systemd/system/multi-user.target.requires/other.swap",
            "",
        );
        let link = machine.at("/etc/systemd/system/multi-user.target.requires/site.swap");
        std::os::unix::fs::symlink("../site.swap", &link).unwrap();
        let ended = machine.run_after(NO_SWAP, os::SWAP_OFF.verb("check"), &[], "");
        let said = "dev-zram0.swap turns swap on at the next boot\n";
        assert_eq!((ended.status, ended.printed.as_str()), (1, said));
        machine.calls();
        machine.done(os::SWAP_OFF.verb("apply"), &[]);
        let changes = || {
            let mut calls = machine.calls();
            calls.retain(|call| call.contains("--quiet") || call.contains("systemctl start"));
            calls
        };
        assert_eq!(
            changes(),
            [
                "systemctl mask --quiet -- dev-zram0.swap",
                "systemctl disable --quiet -- own.swap",
                "systemctl disable --quiet -- site.swap",
                "systemctl mask --quiet -- swapspace.service",
                "systemctl mask --quiet -- vendor.swap",
                "systemctl mask --quiet -- zramswap.service",
            ]
        );
        assert!(std::fs::read_link(&link).is_err());
        machine.write(
            "/root/units",
            "disk.swap generated -\ndev-zram0.swap masked -\nown.swap disabled -\nswapspace.service masked enabled\nvendor.swap masked -\nzramswap.service masked enabled\n",
        );
        let ended = machine.run_after(NO_SWAP, os::SWAP_OFF.verb("check"), &[], "");
        assert_eq!((ended.status, ended.printed.as_str()), (0, ""));
        machine.calls();
        machine.done(os::SWAP_ON, &[]);
        assert_eq!(
            changes(),
            [
                "systemctl unmask --quiet -- dev-zram0.swap",
                "systemctl start --no-block -- dev-zram0.swap",
                "systemctl enable --quiet -- own.swap",
                "systemctl enable --quiet -- site.swap",
                "systemctl unmask --quiet -- swapspace.service",
                "systemctl unmask --quiet -- vendor.swap",
                "systemctl unmask --quiet -- zramswap.service",
                "systemctl start --no-block -- zramswap.service",
            ]
        );
        let target = std::fs::read_link(&link).unwrap();
        assert_eq!(target.to_str(), Some("../site.swap"));
    });
}

/// systemd restarts a unit of the folder `.upholds` whenever it ends. Links below /usr/lib are not those of an administrator.
#[test]
fn unit_that_others_start_is_disabled_or_named_with_them() {
    Machine::with_each_shell(|machine| {
        machine.fake("swapoff", "");
        let link = "/etc/systemd/system/site.target.upholds/site.swap";
        machine.fake(
            "systemctl",
            &format!(
                "case $* in list-unit-files*) [ ! -L {link} ] && [ ! -s /root/wanting ] || echo site.swap static - ;;
                 show*) ! [ -L {link} ] || echo UpheldBy=site.target; cat /root/wanting ;; esac"
            ),
        );
        machine.write("/root/wanting", "");
        machine.write("/etc/systemd/system/site.swap", "");
        machine.write("/etc/systemd/system/site.target.upholds/other.swap", "");
        std::os::unix::fs::symlink("../site.swap", machine.at(link)).unwrap();
        let check = || {
            machine
                .run_after(NO_SWAP, os::SWAP_OFF.verb("check"), &[], "")
                .status
        };
        assert_eq!(check(), 1);
        machine.done(os::SWAP_OFF.verb("apply"), &[]);
        assert!(std::fs::read_link(machine.at(link)).is_err());
        assert_eq!(check(), 0);
        machine.write(
            "/root/wanting",
            "WantedBy=vendor.target\nRequiredBy=\nUpheldBy=site.service\n",
        );
        let ended = machine.run(os::SWAP_OFF.verb("apply"), &[]);
        let said = "site.swap turns swap on at the next boot, because other units start it: vendor.target site.service\n\
                    hint: move /etc/systemd/system/site.swap out of this directory, run systemctl mask site.swap on this host, then the same command again\n";
        assert_eq!((ended.status, ended.complained.as_str()), (1, said));
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
        for _ in 0..2 {
            assert_eq!(run("apply").status, 0);
        }
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
fn hook_runs_with_its_program_and_its_success_is_recorded() {
    let hook = "#!/bin/sh -eu\necho \"$KUBEXM_CLUSTER $KUBEXM_HOST $0 $PWD\" | tee -a /root/ran\nread -r line || echo none >>/root/ran\n[ ! -e /root/fail ] || exit 3\n";
    Machine::with_each_shell(|machine| {
        let run = |record: &str| {
            let arguments = [
                "name=site",
                record,
                "cluster=demo",
                "host=node1",
                "--",
                "/bin/sh",
                "-eu",
            ];
            machine.run_after(":", os::HOOK.verb("run"), &arguments, hook)
        };
        let check = |digest: &str| {
            let ended = machine.run_after(":", os::HOOK.verb("check"), &["name=site"], digest);
            (ended.status, ended.printed)
        };
        machine.done(os::HOOK.verb("wait"), &[]);
        assert_eq!(check("").1, "has not run on this host\n");
        machine.write("/root/fail", "");
        let ended = run("record=changed");
        let said = "demo node1 /run/kubexm/hook-site /\n";
        assert_eq!((ended.status, ended.complained.as_str()), (3, said));
        assert_eq!(ended.printed, "");
        assert_eq!(check("").0, 1);
        std::fs::remove_file(machine.at("/root/fail")).unwrap();
        assert_eq!(run("record=always").status, 0);
        assert_eq!(check("").0, 1);
        assert_eq!(run("record=changed").status, 0);
        let digest = machine.read("/var/lib/kubexm/done/hook-site");
        assert_eq!(check(&digest), (0, String::new()));
        let differs = "differs from the hook that ran on this host\n".to_owned();
        assert_eq!(check("0\n"), (1, differs));
        assert_eq!(machine.read("/root/ran"), format!("{said}none\n").repeat(3));
        assert!(!machine.has("/run/kubexm/hook-site"));
        machine.write("/run/kubexm/hook-killed", "secret");
        machine.done(os::HOOK_END, &[]);
        assert!(!machine.has("/run/kubexm"));
    });
}

#[test]
fn name_of_the_host_is_set_and_restored() {
    Machine::with_each_shell(|machine| {
        machine.fake("uname", "cat /root/name");
        machine.fake("hostname", "echo \"$1\" >/root/name");
        machine.write("/root/name", "former\n");
        let check = || machine.run(os::HOSTNAME.verb("check"), &["node1"]).printed;
        assert_eq!(check(), "is former\n");
        machine.done(os::HOSTNAME.verb("apply"), &["node1"]);
        assert_eq!(
            (check().as_str(), &*machine.read("/etc/hostname")),
            ("", "node1\n")
        );
        machine.write("/etc/hostname", "other\n");
        assert_eq!(check(), "/etc/hostname has another name\n");
        machine.done(os::HOSTNAME.verb("apply"), &["node1"]);
        machine.done(os::HOSTNAME_RESTORE, &[]);
        assert_eq!(machine.read("/root/name"), "former\n");
        assert!(!machine.has("/etc/hostname"));
    });
}

#[test]
fn name_servers_are_in_the_file_of_the_program_that_runs() {
    const SERVERS: [&str; 2] = [
        "servers=192.0.2.53 2001:db8::53",
        "searches=corp.example example",
    ];
    const RESOLVED: &str = "/etc/systemd/resolved.conf.d/kubexm.conf";
    const MANAGER: &str = "/etc/NetworkManager/conf.d/kubexm-dns.conf";
    let without_comment = |text: String| text.lines().skip(1).collect::<Vec<_>>().join("|");
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", SYSTEMCTL);
        let check = || machine.run(os::RESOLVERS.verb("check"), &SERVERS);
        let apply = || machine.done(os::RESOLVERS.verb("apply"), &SERVERS);
        let link = |target: &str| {
            let _ = std::fs::remove_file(machine.at("/etc/resolv.conf"));
            std::os::unix::fs::symlink(target, machine.at("/etc/resolv.conf")).unwrap();
        };
        machine.write("/root/units/keep", "");
        assert_eq!(check().printed, "/etc/resolv.conf has other name servers\n");
        link("../run/resolvconf/resolv.conf");
        apply();
        assert_eq!(
            without_comment(machine.read("/etc/resolv.conf")),
            "search corp.example example|nameserver 192.0.2.53|nameserver 2001:db8::53"
        );
        assert_eq!(check().status, 0);
        // The host gets another program.
        machine.write("/root/units/NetworkManager.active", "");
        assert_eq!(check().status, 1);
        apply();
        assert_eq!(
            without_comment(machine.read(MANAGER)),
            "[global-dns]|searches=corp.example,example|[global-dns-domain-*]|servers=192.0.2.53,2001:db8::53"
        );
        assert!(
            machine
                .calls()
                .contains(&"systemctl reload NetworkManager".to_owned())
        );
        machine.write("/root/units/systemd-resolved.active", "");
        link("../run/systemd/resolve/stub-resolv.conf");
        apply();
        assert_eq!(
            without_comment(machine.read(RESOLVED)),
            "[Resolve]|DNS=|DNS=192.0.2.53 2001:db8::53|Domains=|Domains=~. corp.example example"
        );
        assert_eq!(check().status, 0);
        machine.write("/var/lib/kubexm/backup/resolvers/pending", "");
        assert_eq!(check().printed, "an earlier change was interrupted\n");
        machine.done(os::RESOLVERS_RESTORE, &[]);
        assert!(!machine.has(RESOLVED) && !machine.has(MANAGER));
        assert!(!machine.has("/etc/systemd/resolved.conf.d"));
        let table = std::fs::read_link(machine.at("/etc/resolv.conf")).unwrap();
        assert_eq!(table.to_str(), Some("../run/resolvconf/resolv.conf"));
    });
}

#[test]
fn table_that_network_manager_leaves_to_others_has_the_name_servers() {
    const MANAGER: &str = "/etc/NetworkManager/conf.d/kubexm-dns.conf";
    const TABLE: &str = "/etc/resolv.conf";
    const FORMER: &str = "nameserver 192.0.2.1\n";
    let generates = format!(
        "{SYSTEMCTL}\ncase $* in 'reload NetworkManager') cat /root/table >{TABLE} ;; esac"
    );
    Machine::with_each_shell(|machine| {
        machine.write("/root/units/NetworkManager.active", "");
        machine.fake("busctl", "cat /root/mode");
        machine.write("/root/table", "# Generated by NetworkManager\n");
        let run = |verb| machine.run(os::RESOLVERS.verb(verb), &["servers=192.0.2.53"]);
        let apply = || {
            assert_eq!(run("check").status, 1);
            assert_eq!(run("apply").status, 0);
            let ended = run("check");
            assert_eq!((ended.status, ended.printed.as_str()), (0, ""));
        };
        let restore = || {
            machine.done(os::RESOLVERS_RESTORE, &[]);
            std::fs::remove_dir_all(machine.at("/var/lib/kubexm")).unwrap();
            assert!(!machine.has(MANAGER));
        };
        // `dns=none`.
        machine.fake("systemctl", SYSTEMCTL);
        machine.write("/root/mode", "s \"unmanaged\"\n");
        machine.write(TABLE, FORMER);
        apply();
        assert!(machine.read(TABLE).ends_with("nameserver 192.0.2.53\n"));
        assert!(!machine.has(MANAGER));
        restore();
        assert_eq!(machine.read(TABLE), FORMER);

        // A link of the site.
        machine.fake("systemctl", &generates);
        machine.write("/root/mode", "s \"symlink\"\n");
        machine.write("/etc/site.conf", FORMER);
        std::fs::remove_file(machine.at(TABLE)).unwrap();
        std::os::unix::fs::symlink("site.conf", machine.at(TABLE)).unwrap();
        apply();
        assert!(machine.has(MANAGER));
        let is_link = || std::fs::read_link(machine.at(TABLE)).is_ok();
        assert!(!is_link());
        assert_eq!(machine.read("/etc/site.conf"), FORMER);
        restore();
        assert!(is_link());
        assert_eq!(machine.read("/etc/site.conf"), FORMER);

        // A table that NetworkManager replaces only because it has servers now.
        std::fs::remove_file(machine.at(TABLE)).unwrap();
        machine.write(TABLE, FORMER);
        apply();
        assert_ne!(machine.read(TABLE), FORMER);
        restore();
        assert_eq!(machine.read(TABLE), FORMER);

        // One that it had written: it writes the present servers of its connections.
        machine.write(
            TABLE,
            "# Generated by NetworkManager\nnameserver 192.0.2.2\n",
        );
        machine.write(
            "/root/table",
            "# Generated by NetworkManager\nnameserver 192.0.2.3\n",
        );
        apply();
        restore();
        assert!(machine.read(TABLE).ends_with("192.0.2.3\n"));
    });
}

#[test]
fn time_servers_are_in_the_file_of_the_program_that_the_host_has() {
    const CHRONY: &str = "# kubexm begin\nserver ntp.example iburst\nlocal stratum 10\nallow 192.0.2.12\nallow 192.0.2.13\n# kubexm end\n";
    let source = [
        "role=source",
        "servers=ntp.example",
        "clients=192.0.2.12 192.0.2.13",
    ];
    let client = ["role=client", "servers=192.0.2.1 ntp.example", "clients="];
    for (unit, config, file, arguments, expected) in [
        ("chrony", "confdir /etc/chrony/conf.d", "/etc/chrony/conf.d/kubexm.conf", source, CHRONY.to_owned()),
        ("chronyd", "pool pool.example", "/etc/chrony.conf", source, format!("#kubexm pool pool.example\n{CHRONY}")),
        (
            "systemd-timesyncd",
            "",
            "/etc/systemd/timesyncd.conf.d/kubexm.conf",
            client,
            "# Written by kubexm: time servers of system.time.\n[Time]\nNTP=\nNTP=192.0.2.1 ntp.example\n".to_owned(),
        ),
    ] {
        Machine::with_each_shell(|machine| {
            machine.fake("systemctl", SYSTEMCTL);
            machine.write(&format!("/root/units/{unit}.service"), "");
            let own = if unit == "chrony" { "/etc/chrony/chrony.conf" } else { "/etc/chrony.conf" };
            machine.write(own, &format!("{config}\n"));
            let check = || machine.run(os::TIME_SERVERS.verb("check"), &arguments);
            assert_eq!(check().printed, format!("{file} has other time servers\n"));
            for _ in 0..2 {
                machine.done(os::TIME_SERVERS.verb("apply"), &arguments);
            }
            assert_eq!(machine.read(file), expected, "{unit}");
            assert_eq!(check().status, 0, "{unit}");
            let restart = format!("systemctl restart {unit}.service");
            assert!(machine.calls().contains(&restart));
            machine.done(os::TIME_SERVERS_RESTORE, &[]);
            assert_eq!(machine.read(own), format!("{config}\n"));
            assert!(file == own || !machine.has(file));
            assert!(!machine.has(&format!("/root/units/{unit}.service.active")));
            assert!(!machine.has(&format!("/root/units/{unit}.service.enabled")));
        });
    }
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", SYSTEMCTL);
        let ended = machine.run(os::TIME_SERVERS.verb("apply"), &client);
        assert!(
            ended.complained.contains("hint: install chrony"),
            "{}",
            ended.complained
        );
        machine.write("/root/units/systemd-timesyncd.service", "");
        let ended = machine.run(os::TIME_SERVERS.verb("apply"), &source);
        assert!(
            ended
                .complained
                .starts_with("systemd-timesyncd cannot serve")
        );
    });
}

#[test]
fn chrony_asks_no_servers_besides_those_of_the_cluster_file() {
    const OWN: &str = "/etc/chrony/chrony.conf";
    const FORMER: &str = "pool a.example iburst\n Server b.example\n# server c.example\nconfdir /etc/chrony/conf.d\nmakestep 1 3\n";
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", SYSTEMCTL);
        machine.write("/root/units/chrony.service", "");
        machine.write(OWN, FORMER);
        let run = |verb, servers: &str| {
            machine.run(
                os::TIME_SERVERS.verb(verb),
                &[
                    "role=source",
                    &format!("servers={servers}"),
                    "clients=192.0.2.12",
                ],
            )
        };
        assert_eq!(run("apply", "ntp.example").status, 0);
        assert_eq!(run("check", "ntp.example").status, 0);
        let without = "#kubexm pool a.example iburst\n#kubexm  Server b.example\n# server c.example\nconfdir /etc/chrony/conf.d\nmakestep 1 3\n";
        assert_eq!(machine.read(OWN), without);
        // An update of the package has written the file.
        machine.write(OWN, FORMER);
        let ended = run("check", "ntp.example");
        assert_eq!(ended.printed, format!("{OWN} has other time servers\n"));
        assert_eq!(run("apply", "ntp.example").status, 0);
        assert_eq!(machine.read(OWN), without);
        // A source without servers keeps its own.
        assert_eq!(run("check", "").status, 1);
        assert_eq!(run("apply", "").status, 0);
        assert_eq!(
            (run("check", "").status, machine.read(OWN)),
            (0, FORMER.to_owned())
        );
        assert_eq!(run("apply", "ntp.example").status, 0);
        machine.done(os::TIME_SERVERS_RESTORE, &[]);
        assert_eq!(machine.read(OWN), FORMER);
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

/// The kernel prints tabs between the numbers of a setting.
#[test]
fn setting_with_several_numbers_is_compared_without_its_blanks() {
    Machine::with_each_shell(|machine| {
        let check = |value: &str| {
            let setting = ["net.ipv4.ping_group_range", value];
            machine.run(os::SYSCTL.verb("check"), &setting).status
        };
        // The default of a new network namespace.
        assert_eq!((check("1 0"), check(" 1   0 "), check("10")), (0, 0, 1));
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
