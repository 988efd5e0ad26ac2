//! Scripts that change interfaces, rules and addresses.

use super::machine::Machine;
use crate::{network, os};

/// In a network namespace of its own: chains and rules of kube-proxy, calico and the host.
const RULES: &str = r#"
mkdir /sys
mount -t sysfs none /sys
ip link set lo up
iptables -N KUBE-SERVICES
iptables -N KUBE-FIREWALL
iptables -N cali-INPUT
iptables -N THEIRS
iptables -A INPUT -m comment --comment "kubernetes \"quoted\" \$(touch /root/pwned) \`touch /root/pwned\`" -j KUBE-SERVICES
iptables -A KUBE-SERVICES -j KUBE-FIREWALL
iptables -A INPUT -j cali-INPUT
iptables -A INPUT -m comment --comment "it's theirs" -j THEIRS
iptables -t nat -N KUBE-POSTROUTING
iptables -t nat -A POSTROUTING -j KUBE-POSTROUTING
iptables -t raw -A OUTPUT -p udp -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j ACCEPT
ip6tables -N KUBE-FIREWALL
ip link add cni0 type bridge
ip link add lxcbr0 type bridge
ip link add lxc1a2b3c4d5e6f type bridge
ip link add cali0a1b2c3d4e5 type bridge
ip link add calibration type bridge
ip link add eth7 type bridge
"#;

/// The rules of all tables and the names of links after a removal.
fn left(machine: &Machine, owner: &'static str) -> String {
    // The rules are in a network namespace, which ends with the command.
    machine.fake("systemctl", "");
    let script = crate::Script {
        name: "removal and listing",
        text: r#"
            sh -euc "$1" kubexm "$2"
            for table in filter nat raw; do iptables -t "$table" -S; done
            ip6tables -S | grep -v '^-P'|| :
            ip -o link | sed 's/^[0-9]*: \([^:@]*\).*/link \1/'
        "#,
        verb: None,
    };
    let text = network::REMOVE_LEFTOVERS.text;
    let ended = machine.run_after(RULES, script, &[text, owner], "");
    assert_eq!(ended.status, 0, "{owner}: {}", ended.complained);
    assert!(
        !machine.has("/root/pwned"),
        "{owner}: a comment was executed"
    );
    let lines = ended.printed.lines().filter(|line| !line.starts_with("-P"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn only_rules_and_links_of_kubernetes_are_removed() {
    Machine::with_each_shell(|machine| {
        let expected = "\
-N THEIRS
-N cali-INPUT
-A INPUT -j cali-INPUT
-A INPUT -m comment --comment \"it\\'s theirs\" -j THEIRS
-A OUTPUT -p udp -m comment --comment \"NodeLocal DNS Cache: skip conntrack\" -j ACCEPT
link lo
link lxcbr0
link lxc1a2b3c4d5e6f
link cali0a1b2c3d4e5
link calibration
link eth7
";
        assert_eq!(left(machine, "kubernetes"), expected);
        assert!(
            machine
                .calls()
                .contains(&"systemctl stop kubepods.slice".to_owned())
        );
    });
}

#[test]
fn only_rules_and_links_of_calico_are_removed() {
    Machine::with_each_shell(|machine| {
        let left = left(machine, "calico");
        assert!(!left.contains("cali-"), "{left}");
        assert!(!left.contains("cali0"), "{left}");
        for kept in [
            "-N KUBE-SERVICES\n",
            "-N THEIRS\n",
            "-j THEIRS",
            "link cni0\n",
            "link lxc1a2b3c4d5e6f\n",
            "link calibration\n",
        ] {
            assert!(left.contains(kept), "{kept}: {left}");
        }
    });
}

#[test]
fn only_rules_of_the_dns_cache_are_removed() {
    Machine::with_each_shell(|machine| {
        let left = left(machine, "node-local-dns");
        assert!(!left.contains("NodeLocal"), "{left}");
        for kept in [
            "-N KUBE-SERVICES\n",
            "-N cali-INPUT\n",
            "KUBE-POSTROUTING",
            "link cni0\n",
        ] {
            assert!(left.contains(kept), "{kept}: {left}");
        }
    });
}

/// Cilium's agent renames the network configurations of other programs, such as podman.
#[test]
fn files_that_cilium_renamed_have_their_names_again() {
    Machine::with_each_shell(|machine| {
        let path = |name: &str| format!("/etc/cni/net.d/{name}");
        for (name, text) in [
            ("87-podman-bridge.conflist.cilium_bak", "podman"),
            ("10-site.conf.cilium_bak", "former"),
            ("10-site.conf", "present"),
        ] {
            machine.write(&path(name), text);
        }
        left(machine, "cilium");
        let read = |name: &str| std::fs::read_to_string(machine.at(&path(name))).ok();
        assert_eq!(read("87-podman-bridge.conflist").as_deref(), Some("podman"));
        assert_eq!(read("87-podman-bridge.conflist.cilium_bak"), None);
        assert_eq!(read("10-site.conf").as_deref(), Some("present"));
        assert_eq!(read("10-site.conf.cilium_bak").as_deref(), Some("former"));
        // The removal of the directory lists what is of no program of the cluster.
        let patterns = crate::undo::directories::content("/etc/cni").patterns;
        assert!(
            !patterns
                .iter()
                .any(|pattern| pattern.contains("cilium_bak"))
        );
    });
}

#[test]
fn only_links_of_cilium_are_removed() {
    Machine::with_each_shell(|machine| {
        let left = left(machine, "cilium");
        assert!(!left.contains("lxc1a2b3c4d5e6f"), "{left}");
        for kept in [
            "-N KUBE-SERVICES\n",
            "-N cali-INPUT\n",
            "link cni0\n",
            "link cali0a1b2c3d4e5\n",
            "link lxcbr0\n",
            "link eth7\n",
        ] {
            assert!(left.contains(kept), "{kept}: {left}");
        }
    });
}

/// What an administrator and a hostile pod with NET_ADMIN in the host's network can have, beside the chains of
/// kube-proxy, CNI plugins and flannel. `$1` is the program.
const CLUSTER_AND_SITE: &str = r#"
iptables -N KUBE-SERVICES
iptables -N KUBE-SVC-ERIFXISQEP7F7OF4
iptables -N CNI-0123456789abcdef01234567
iptables -N FLANNEL-FWD
iptables -N KUBE-SITE
iptables -N CNI-SITE
iptables -A KUBE-SERVICES -j KUBE-SVC-ERIFXISQEP7F7OF4
iptables -A KUBE-SVC-ERIFXISQEP7F7OF4 -j CNI-0123456789abcdef01234567
iptables -A INPUT -m comment --comment "KUBE-x \$(touch /root/pwned)" -j ACCEPT
iptables -A INPUT -m comment --comment "KUBE-x \$(touch /root/pwned)" -j KUBE-SERVICES
iptables -A INPUT -p udp --dport 8472 -m comment --comment "site rule: allow flannel from DC2" -j ACCEPT
iptables -A INPUT -m comment --comment "x\" -j KUBE-SERVICES -m comment --comment \"cali:S93hcgKJrXEqnTfs" -j ACCEPT
iptables -A INPUT -m comment --comment "before KUBE-SERVICES" -j KUBE-SITE
iptables -A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
iptables -A FORWARD -j CNI-SITE
"#;

#[test]
fn comments_of_rules_are_neither_executed_nor_taken_for_names() {
    for program in ["iptables", "iptables-legacy", "ip6tables"] {
        Machine::with_each_shell(|machine| {
            machine.fake("systemctl", "");
            let before = format!(
                "mkdir /sys; mount -t sysfs none /sys\nmount -t tmpfs none /run\n{}",
                CLUSTER_AND_SITE.replace("iptables", program)
            );
            let script = crate::Script {
                name: "removal and listing",
                text: "sh -euc \"$1\" kubexm kubernetes; \"$2\" -S",
                verb: None,
            };
            let text = network::REMOVE_LEFTOVERS.text;
            let ended = machine.run_after(&before, script, &[text, program], "");
            assert_eq!(ended.status, 0, "{program}: {}", ended.complained);
            assert!(!machine.has("/root/pwned"), "a comment was executed");
            let expected = r#"-P INPUT ACCEPT
-P FORWARD ACCEPT
-P OUTPUT ACCEPT
-N CNI-SITE
-N KUBE-SITE
-A INPUT -m comment --comment "KUBE-x $(touch /root/pwned)" -j ACCEPT
-A INPUT -p udp -m udp --dport 8472 -m comment --comment "site rule: allow flannel from DC2" -j ACCEPT
-A INPUT -m comment --comment "x\" -j KUBE-SERVICES -m comment --comment \"cali:S93hcgKJrXEqnTfs" -j ACCEPT
-A INPUT -m comment --comment "before KUBE-SERVICES" -j KUBE-SITE
-A FORWARD -j CNI-SITE
"#;
            let mut lines: Vec<&str> = ended.printed.lines().collect();
            // The order of chains depends on the version.
            lines[3..5].sort_unstable();
            assert_eq!(format!("{}\n", lines.join("\n")), expected, "{program}");
        });
    }
}

#[test]
fn only_virtual_servers_of_kube_proxy_are_deleted() {
    Machine::with_each_shell(|machine| {
        for name in ["systemctl", "iptables", "ip6tables", "nft"] {
            machine.fake(name, "");
        }
        machine.fake("ip", "[ \"$2\" != addr ] || printf '9: kube-ipvs0 inet 10.96.0.1/32 scope\\n9: kube-ipvs0 inet6 fd00::1/128 scope\\n'");
        machine.fake(
            "ipset",
            "[ \"$2\" != KUBE-NODE-PORT-TCP ] || printf 'Name: x\\nMembers:\\n30080\\n'",
        );
        machine.fake("ipvsadm", "[ \"$1\" != -S ] || printf '%s\\n' '-A -t 10.96.0.1:443 -s rr' '-a -t 10.96.0.1:443 -r 10.1.1.1:6443 -m' '-A -t 192.0.2.1:30080 -s rr' '-A -u 192.0.2.1:30080 -s rr' '-A -t [fd00::1]:443 -s rr' '-A -t 192.0.2.9:80 -s wlc'");
        let before = "mkdir -p /sys/class/net/kube-ipvs0";
        let script = network::REMOVE_LEFTOVERS.verb("kubernetes");
        let ended = machine.run_after(before, script, &[], "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let calls = machine.calls();
        let deleted: Vec<&String> = calls
            .iter()
            .filter(|c| c.starts_with("ipvsadm -D"))
            .collect();
        let expected = [
            "ipvsadm -D -t 10.96.0.1:443",
            "ipvsadm -D -t 192.0.2.1:30080",
            "ipvsadm -D -t [fd00::1]:443",
        ];
        assert_eq!(deleted, expected);
        assert!(!calls.contains(&"ipvsadm --clear".to_owned()));
    });
}

#[test]
fn sets_and_nft_tables_are_removed_last() {
    Machine::with_each_shell(|machine| {
        for name in [
            "systemctl",
            "ip",
            "iptables",
            "ip6tables",
            "iptables-restore",
            "ip6tables-restore",
            "nft",
        ] {
            machine.fake(name, "");
        }
        machine.fake(
            "ipset",
            "[ \"$1\" != list ] || printf 'KUBE-LOOP-BACK\\ntheirs\\nKUBE-6-CLUSTER-IP\\nKUBE-SITE\\nMY-KUBE-LOOP-BACK\\n'",
        );
        machine.done(network::REMOVE_LEFTOVERS.verb("kubernetes"), &[]);
        let calls = machine.calls();
        let destroyed: Vec<&String> = calls
            .iter()
            .filter(|call| call.starts_with("ipset destroy"))
            .collect();
        let expected = [
            "ipset destroy KUBE-LOOP-BACK",
            "ipset destroy KUBE-6-CLUSTER-IP",
        ];
        assert_eq!(destroyed, expected);
        let tables: Vec<&String> = calls
            .iter()
            .filter(|call| call.starts_with("nft"))
            .collect();
        assert_eq!(tables.len(), 7, "{tables:?}");
        assert_eq!(tables[0], "nft delete table ip kube-proxy");
    });
}

#[test]
fn unknown_owner_of_leftovers_is_refused() {
    Machine::with_each_shell(|machine| {
        let ended = machine.run(network::REMOVE_LEFTOVERS.verb("everything"), &[]);
        assert_eq!(ended.status, 2);
        assert!(
            ended.complained.starts_with("usage: remove-leftovers.sh"),
            "{}",
            ended.complained
        );
    });
}

/// As in sysctl.d, the first separator decides what the others mean.
#[test]
fn kernel_settings_of_interfaces_with_a_dot_are_found() {
    Machine::with_each_shell(|machine| {
        for setting in [
            "net.ipv4.conf.eth0/5.rp_filter",
            "net/ipv4/conf/eth0.5/rp_filter",
        ] {
            let script = crate::Script {
                verb: None,
                name: "apply and check",
                text: "sh -euc \"$1\" kubexm apply \"$2\" 2; sh -euc \"$1\" kubexm check \"$2\" 2",
            };
            let before = "ip link add eth0.5 type bridge";
            let ended = machine.run_after(before, script, &[os::SYSCTL.text, setting], "");
            assert_eq!(ended.status, 0, "{setting}: {}", ended.complained);
            let former = machine.read("/var/lib/kubexm/backup/sysctl");
            assert!(former.contains("/proc/sys/net/ipv4/conf/eth0.5/rp_filter "));
        }
    });
}
