//! Packages, swap, units, networks and commands that run to completion.

use super::super::machine::{MODPROBE, Machine};
use super::super::users::{with_data_of_etcd, with_users};
use super::{
    Case, KILL, call, commands, kill_everywhere, kill_everywhere_and, listing, only_lists, run,
};
use crate::{Script, etcd, host, load_balancer, markers, network, os, packages, steps, systemd};

/// Removes the packages, and has none to configure.
const DPKG: &str = "case $* in *--configure*) ;; *) rm /root/installed ;; esac";

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn packages_of_apt() {
    kill_everywhere(&Case {
        before: |machine| {
            machine.write("/root/sbin/keep", "");
            machine.fake("apt-get", "[ ! -e /root/installed ] || exit 0\n[ \"$(/usr/sbin/policy-rc.d; echo $?)\" = 101 ] || exit 1\necho socat >/root/installed");
            machine.fake(
                "dpkg-query",
                "[ -e /root/installed ] || exit 1; printf installed",
            );
            machine.fake("dpkg", DPKG);
            machine.fake("tar", "");
        },
        enter: "mount --bind /root/sbin /usr/sbin",
        check: Some(call(packages::APT_CHECK, &["socat"])),
        apply: call(packages::APT.verb("install"), &["digest", "7", "socat"]),
        undo: vec![call(packages::APT_REMOVE, &["socat"])],
    });
}

/// Before, the file stayed for ever, and no service of any later package of the host started.
#[test]
fn policy_of_a_killed_install_does_not_stay() {
    let machine = Machine::new("bash");
    machine.write("/root/sbin/keep", "");
    machine.fake("apt-get", "echo socat >/root/installed; kill -9 \"$PPID\"");
    machine.fake(
        "dpkg-query",
        "[ -e /root/installed ] || exit 1; printf installed",
    );
    machine.fake("dpkg", DPKG);
    machine.fake("tar", "");
    let enter = "mount --bind /root/sbin /usr/sbin";
    let policy = "/root/sbin/policy-rc.d";
    let install = call(packages::APT.verb("install"), &["digest", "7", "socat"]);
    assert!(
        run(&machine, enter, &install, None),
        "the fake apt-get kills the script"
    );
    assert!(machine.has(policy));
    // All packages are installed, and the check still asks for a run.
    let ended = machine.run_after(enter, packages::APT_CHECK, &["socat"], "");
    assert_eq!(
        (ended.status, ended.printed.as_str()),
        (
            1,
            "has the /usr/sbin/policy-rc.d of an install that was killed\n"
        )
    );
    machine.fake("apt-get", "");
    run(&machine, enter, &install, None);
    assert!(!machine.has(policy));
    assert_eq!(
        machine
            .run_after(enter, packages::APT_CHECK, &["socat"], "")
            .status,
        0
    );
    // A policy of the site is neither replaced nor removed.
    machine.write(policy, "#!/bin/sh\nexit 101\n");
    run(&machine, enter, &install, None);
    run(
        &machine,
        enter,
        &call(packages::APT_REMOVE, &["socat"]),
        None,
    );
    assert_eq!(machine.read(policy), "#!/bin/sh\nexit 101\n");
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn packages_of_dnf() {
    kill_everywhere(&Case {
        before: |machine| {
            machine.fake("dnf", "echo socat >/root/installed");
            machine.fake(
                "rpm",
                "case $1 in -e) rm /root/installed ;; *) [ -e /root/installed ] ;; esac",
            );
            machine.fake("tar", "");
        },
        enter: ":",
        check: Some(call(packages::DNF_CHECK, &["socat"])),
        apply: call(packages::DNF.verb("install"), &["digest", "7", "socat"]),
        undo: vec![call(packages::DNF_REMOVE, &["socat"])],
    });
}

/// Adds a stand-in for systemctl that stores the state of units in files.
fn services(machine: &Machine) {
    let systemctl = "case $1 in\nmask) echo \"$3\" >\"/root/units/$3\" ;;\nunmask) rm -f \"/root/units/$3\" ;;\n\
                     enable) : >\"/root/units/$3\" ;;\nrestart) : >\"/root/units/$2.on\" ;;\n\
                     disable) rm -f \"/root/units/$4\" \"/root/units/$4.on\" ;;\n\
                     is-enabled) [ -e \"/root/units/$3\" ] ;;\nis-active) [ -e \"/root/units/$3.on\" ] ;;\n\
                     show) if [ -e \"/root/units/$5\" ]; then echo masked; else echo not-found; fi ;;\nesac";
    machine.fake("systemctl", systemctl);
    machine.write("/root/units/keep", "");
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn swap_and_services() {
    kill_everywhere(&Case {
        before: |machine| {
            machine.write(
                "/etc/fstab",
                "UUID=1 / ext4 defaults 0 1\n/dev/sdb none swap sw 0 0\n",
            );
            machine.fake("swapoff", "");
            machine.fake("swapon", "");
            machine.write("/root/units/zram.swap", "generated\n");
            // One without a section [Install], which a link by hand starts.
            machine.write("/etc/systemd/system/site.swap", "");
            machine.write("/etc/systemd/system/multi-user.target.wants/other", "");
            let link = "/etc/systemd/system/multi-user.target.wants/site.swap";
            std::os::unix::fs::symlink("../site.swap", machine.at(link)).unwrap();
            machine.fake(
                "systemctl",
                "unit=/root/units/${4:-}\ncase $1 in\nmask) echo masked >\"$unit\" ;;\nunmask) echo generated >\"$unit\" ;;\n\
                 list-unit-files) echo \"zram.swap $(cat /root/units/zram.swap)\"
                 [ ! -L /etc/systemd/system/multi-user.target.wants/site.swap ] || echo site.swap static - ;;\n\
                 show) case $* in *site.swap) [ ! -L /etc/systemd/system/multi-user.target.wants/site.swap ] || echo WantedBy=multi-user.target ;; esac ;;\nesac",
            );
        },
        enter: ":",
        check: Some(call(os::SWAP_OFF.verb("check"), &[])),
        apply: call(os::SWAP_OFF.verb("apply"), &[]),
        undo: vec![call(os::SWAP_ON, &[])],
    });
    kill_everywhere(&Case {
        before: |machine| {
            machine.write("/root/share/zoneinfo/Europe/Berlin", "");
            machine.write("/etc/timezone", "Etc/UTC\n");
            std::os::unix::fs::symlink("/usr/share/zoneinfo/Etc/UTC", machine.at("/etc/localtime"))
                .unwrap();
        },
        enter: "mount --bind /root/share /usr/share",
        check: Some(call(os::TIME_ZONE.verb("check"), &["Europe/Berlin"])),
        apply: call(os::TIME_ZONE.verb("apply"), &["Europe/Berlin"]),
        undo: vec![call(os::TIME_ZONE_RESTORE, &[])],
    });
    kill_everywhere(&Case {
        before: |machine| {
            machine.fake("modprobe", MODPROBE);
            machine.write("/sys/module/loop/refcnt", "0\n");
        },
        enter: ":",
        check: Some(call(os::MODULES.verb("check"), &["kubexm_a", "kubexm_b"])),
        apply: call(os::MODULES.verb("apply"), &["kubexm_a", "kubexm_b"]),
        undo: vec![call(os::MODULES_UNLOAD, &[])],
    });
    kill_everywhere(&Case {
        before: services,
        enter: ":",
        check: Some(call(
            load_balancer::MASK_SERVICES.verb("check"),
            &["nginx.service", "haproxy.service"],
        )),
        apply: call(
            load_balancer::MASK_SERVICES.verb("apply"),
            &["nginx.service", "haproxy.service"],
        ),
        undo: vec![call(load_balancer::UNMASK_SERVICES, &[])],
    });
    let unit: [&[&str]; 2] = [
        &["unit=kubelet.service", "start=yes", "--", "/etc/fstab"],
        &[
            "unit=kubelet.service",
            "start=yes",
            "config=/etc/fstab",
            "test=true",
            "--",
            "/etc/hosts",
        ],
    ];
    for arguments in unit {
        kill_everywhere(&Case {
            before: services,
            enter: ":",
            check: Some(call(systemd::UNIT.verb("check"), arguments)),
            apply: call(systemd::UNIT.verb("apply"), arguments),
            undo: vec![call(systemd::UNIT_STOP, &["kubelet.service"])],
        });
    }
    kill_everywhere(&Case {
        before: |machine| {
            machine.fake("systemctl", "");
            machine.write("/etc/NetworkManager/conf.d/theirs.conf", "");
        },
        enter: ":",
        check: Some(call(
            os::NETWORK_MANAGER.verb("check"),
            &["/etc/NetworkManager/conf.d/kubexm.conf", "a\nb"],
        )),
        apply: call(
            os::NETWORK_MANAGER.verb("apply"),
            &["/etc/NetworkManager/conf.d/kubexm.conf", "a\nb"],
        ),
        undo: vec![call(
            os::NETWORK_MANAGER_FORGET,
            &["/etc/NetworkManager/conf.d/kubexm.conf"],
        )],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn long_commands() {
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: Some(call(markers::CHECK, &["kubeadm-init"])),
        apply: call(
            steps::RUN_TO_COMPLETION,
            &[
                "id=kubeadm-init",
                "input=/etc/init.yaml",
                "command=cp \"$INPUT\" /etc/initialized",
                "cleanup=rm -f /etc/initialized",
                "limit=600",
            ],
        ),
        undo: vec![
            call(steps::RUN_TO_COMPLETION_END, &[]),
            call(steps::FILE_REMOVE, &["/etc/initialized"]),
            call(steps::FILE_REMOVE, &["/etc/init.yaml"]),
            call(markers::REMOVE, &["kubeadm"]),
        ],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn users_of_services() {
    kill_everywhere(&Case {
        before: with_users,
        enter: ":",
        check: Some(call(os::USER.verb("check"), &["etcd"])),
        apply: call(os::USER.verb("apply"), &["etcd"]),
        undo: vec![call(os::USER_REMOVE, &["etcd"])],
    });
    kill_everywhere(&Case {
        before: |machine| with_data_of_etcd(machine, "0:0"),
        enter: ":",
        check: Some(call(etcd::FOLDER_OWNER.verb("check"), &["/srv/etcd"])),
        apply: call(etcd::FOLDER_OWNER.verb("apply"), &["/srv/etcd"]),
        undo: vec![call(etcd::FOLDER_RESTORE, &["/srv/etcd"])],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn load_balancer() {
    let join = [
        "address=127.0.0.1:7443",
        "server=192.0.2.1:6443",
        "manifest=/etc/kubernetes/manifests/proxy.yaml",
    ];
    kill_everywhere(&Case {
        before: |machine| {
            machine.fake(
                "systemctl",
                "case $1 in\nis-active) [ -e \"/root/units/$3\" ] ;;\n\
                 stop) shift; for unit in \"$@\"; do rm -f \"/root/units/$unit\"; done ;;\nesac",
            );
            machine.fake("systemd-run", ": >/root/units/kubexm-join.socket");
            machine.write("/root/units/keep", "");
        },
        enter: "mount -t tmpfs none /usr/lib/systemd\n\
                printf '#!/bin/sh\\n' >/usr/lib/systemd/systemd-socket-proxyd\n\
                chmod 755 /usr/lib/systemd/systemd-socket-proxyd",
        check: Some(call(load_balancer::JOIN_PROXY.verb("check"), &join)),
        apply: call(load_balancer::JOIN_PROXY.verb("start"), &join),
        undo: vec![call(load_balancer::JOIN_PROXY.verb("stop"), &[])],
    });
    let services = [KUBE_VIP_SERVICES, "192.0.2.9"];
    kill_everywhere_and(
        &Case {
            before: |machine| {
                machine.write(KUBE_VIP_SERVICES, "pod");
                machine.write("/root/addresses", "2: eth0 inet 192.0.2.30/32\n");
                let log = "/var/log/pods/kube-system_kube-vip-services-node1_1/kube-vip/0.log";
                machine.write(log, "adding VIP ip=192.0.2.30\n");
                machine.fake(
                    "ip",
                    "case $2 in addr) cat /root/addresses ;; del) : >/root/addresses ;; esac",
                );
                // A kube-vip that died does not remove its addresses.
                machine.fake(
                    "crictl",
                    "case $1 in pods | ps) echo 1 ;; stop) rm -rf /var/log/pods/* ;; esac",
                );
            },
            enter: ":",
            check: Some(call(
                load_balancer::KUBE_VIP_SERVICES.verb("check"),
                &services,
            )),
            apply: call(load_balancer::KUBE_VIP_SERVICES.verb("stop"), &services),
            undo: vec![],
        },
        |machine| assert_eq!(machine.read("/root/addresses"), ""),
    );
}

/// The manifest of the pod with which kube-vip assigns addresses to services.
const KUBE_VIP_SERVICES: &str = "/etc/kubernetes/manifests/kube-vip-services.yaml";

/// Rules, links and addresses are in a network namespace, which ends with the command. So the killed script and the next
/// one run in the same namespace.
#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn network_leftovers() {
    if only_lists([network::REMOVE_LEFTOVERS, load_balancer::ADDRESS_REMOVE]) {
        return;
    }
    let create = r#"
mkdir -p /sys
mount -t sysfs none /sys
ip link set lo up
iptables -N KUBE-SERVICES
iptables -N CILIUM_INPUT
iptables -N cali-INPUT
iptables -N THEIRS
iptables -A INPUT -m comment --comment "kubernetes \"quoted\"" -j KUBE-SERVICES
iptables -A INPUT -j cali-INPUT
iptables -A INPUT -j CILIUM_INPUT
iptables -A INPUT -j THEIRS
iptables -t raw -A OUTPUT -p udp -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j ACCEPT
for link in cni0 cilium_vxlan cali0a1b2c3d4e5 nodelocaldns theirs; do ip link add "$link" type bridge; done
ip addr add 192.0.2.9/32 dev theirs
"#;
    let script = Script {
        name: "removal, killed, then repeated, and listing",
        text: r#"
            [ "$KILL_AT" = 0 ] || bash -euc "$1" kubexm "$3" >/dev/null 2>&1 || echo killed >/root/killed
            sh -euc "$2" kubexm "$3"
            for table in filter raw; do iptables -t "$table" -S; done
            ip -o link | sed 's/^[0-9]*: \([^:@]*\).*/link \1/'
            ip -o addr show dev theirs | awk '{ print $3, $4 }'
        "#,
        verb: None,
    };
    let owners = ["kubernetes", "bridge", "calico", "cilium", "node-local-dns"];
    let removals = owners.map(|owner| (network::REMOVE_LEFTOVERS, owner));
    for (removal, argument) in removals
        .into_iter()
        .chain([(load_balancer::ADDRESS_REMOVE, "192.0.2.9")])
    {
        let machine = Machine::new("bash");
        machine.fake("systemctl", "");
        let left = |at: usize| {
            machine.write("/root/n", "0\n");
            let _ = std::fs::remove_file(machine.at("/root/killed"));
            let before = format!("export KILL_AT={at}\n{create}");
            let killed = format!("{KILL}{}", removal.text);
            let arguments = [&*killed, removal.text, argument];
            let ended = machine.run_after(&before, script, &arguments, "");
            assert_eq!(ended.status, 0, "{argument} at {at}: {}", ended.complained);
            ended.printed
        };
        let expected = left(0);
        assert!(expected.contains("THEIRS"), "{expected}");
        for at in commands() {
            assert_eq!(left(at), expected, "{argument}: killed at command {at}");
            if !machine.has("/root/killed") {
                assert!(at > 1, "{argument} was never killed");
                break;
            }
        }
    }
}

/// The lock of a killed script neither excludes its own run for ever nor stays after its release.
#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn host_lock() {
    if only_lists([host::LOCK]) {
        return;
    }
    let lock = |verb, token: &str, origin: &str| {
        let (token, origin) = (format!("token={token}"), format!("origin={origin}"));
        let arguments = [&*token, &*origin, "seconds=600", "holder=anna"];
        call(host::LOCK.verb(verb), &arguments)
    };
    for verb in ["take", "renew", "release"] {
        for at in commands() {
            let machine = Machine::new("bash");
            let original = listing(&machine);
            if verb != "take" {
                run(&machine, ":", &lock("take", "token1", "origin1"), None);
            }
            let killed = run(&machine, ":", &lock(verb, "token1", "origin1"), Some(at));
            run(&machine, ":", &lock("take", "token2", "origin1"), None);
            run(&machine, ":", &lock("release", "token2", "origin1"), None);
            run(&machine, ":", &lock("take", "token3", "origin2"), None);
            run(&machine, ":", &lock("release", "token3", "origin2"), None);
            assert!(!machine.has("/run/kubexm.lock"), "{verb} at {at}");
            assert_eq!(listing(&machine), original);
            if !killed {
                break;
            }
        }
    }
}
