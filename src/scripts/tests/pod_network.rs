//! Scripts of the plugin `bridge`: subnets of pods, and routes to them.

use super::machine::Machine;
use crate::{Script, network};

/// Sets the routes of a configuration and removes them. Returns the calls of both; `routes` are those that exist before.
fn calls(machine: &Machine, config: &str, routes: &str) -> [Vec<String>; 2] {
    machine.fake("ip", &format!("case $* in {routes} esac"));
    for program in ["iptables", "ip6tables"] {
        let answers = "case $* in *-A*) ;; *-I*) ;; *-S*) [ ! -e /root/forward ] || cat /root/forward ;; *) exit 1 ;; esac";
        machine.fake(program, answers);
    }
    // The script does not end by itself, so this ends it after the first round.
    machine.fake("sleep", "exit 7");
    let path = "/etc/kubexm/pod-routes.conf";
    machine.write(path, config);
    let ended = machine.run(network::POD_ROUTES, &["keep", path]);
    assert_eq!(ended.status, 7, "{}", ended.complained);
    let set = machine.calls();
    machine.done(network::POD_ROUTES, &["down", path]);
    [set, machine.calls()]
}

/// Returns the calls of a program for the rules that translate addresses of pods and let their packets pass, with these options.
fn rules(program: &str, pods: &str, options: &[&str]) -> Vec<String> {
    let comment = "-m comment --comment kubexm pod network";
    let rules = [
        (
            "nat",
            "POSTROUTING",
            format!("-s {pods} ! -d {pods} {comment} -j MASQUERADE"),
        ),
        (
            "filter",
            "FORWARD",
            format!("-s {pods} {comment} -j ACCEPT"),
        ),
        (
            "filter",
            "FORWARD",
            format!("-d {pods} {comment} -j ACCEPT"),
        ),
    ];
    let mut calls = Vec::new();
    let sets = options.contains(&"-C");
    for (table, chain, rule) in rules {
        let options = options.iter();
        let own = options.map(|option| match option.split_once(' ') {
            // Only the chain of all packets has a rule that refuses them.
            Some((_, number)) if chain == "FORWARD" => format!("-I FORWARD {number} {rule}"),
            Some(_) => format!("-A {chain} {rule}"),
            None => format!("{option} {chain} {rule}"),
        });
        calls.extend(own.map(|words| format!("{program} -w -t {table} {words}")));
        if chain == "POSTROUTING" && sets {
            calls.push(format!("{program} -w -t filter -S FORWARD"));
        }
    }
    calls
}

fn all(parts: &[&[String]]) -> Vec<String> {
    parts.concat()
}

#[test]
fn pod_routes_are_set_and_removed() {
    Machine::with_each_shell(|machine| {
        let [set, removed] = calls(
            machine,
            "# Written by kubexm.\npods 10.244.0.0/16\nroute 10.244.1.0/24 192.0.2.12\nroute 10.244.2.0/24 192.0.2.13\n",
            r#"*show*) echo "10.244.9.0/24 via 192.0.2.9" ;;"#,
        );
        let routes = [
            "ip -4 route show proto 187",
            "ip -4 route del 10.244.9.0/24 proto 187",
            "ip -4 route replace 10.244.1.0/24 via 192.0.2.12 proto 187",
            "ip -4 route replace 10.244.2.0/24 via 192.0.2.13 proto 187",
        ];
        let routes = routes.map(str::to_owned);
        let of = |options: &[&str]| rules("iptables", "10.244.0.0/16", options);
        let end = ["sleep 15".to_owned()];
        assert_eq!(set, all(&[&routes, &of(&["-C", "-A"]), &end]));
        let flush = ["ip -4 route flush proto 187".to_owned()];
        assert_eq!(removed, all(&[&flush, &of(&["-D"])]));
        assert_eq!(machine.run(network::POD_ROUTES, &[]).status, 2);
    });
}

/// Behind a rule that refuses every packet, as on RHEL, the rules have no effect. Those of kube-proxy, which refuse packets to
/// services without pods, come first.
#[test]
fn packets_of_pods_are_accepted_before_a_rule_that_refuses_all() {
    Machine::with_each_shell(|machine| {
        let forward = "-P FORWARD ACCEPT\n-A FORWARD -j KUBE-FORWARD\n-A FORWARD -s 198.51.100.7/32 -j DROP\n\
                       -A FORWARD -j REJECT --reject-with icmp-host-prohibited\n";
        machine.write("/root/forward", forward);
        let [set, _] = calls(machine, "pods 10.244.0.0/16\n", "");
        let expected = rules("iptables", "10.244.0.0/16", &["-C", "-I 3"]);
        assert_eq!(set[1..set.len() - 1], expected);
        // One that an earlier version appended.
        let own =
            "-A FORWARD -s 10.244.0.0/16 -m comment --comment \"kubexm pod network\" -j ACCEPT\n";
        machine.write("/root/forward", &format!("{forward}{own}"));
        let [set, _] = calls(machine, "pods 10.244.0.0/16\n", "");
        let order: Vec<&str> = ["-D FORWARD -s", "-C FORWARD -s", "-I FORWARD 3 -s"].into();
        let is_about = |call: &&String| call.contains("FORWARD") && call.contains("-s 10.244");
        let calls: Vec<&String> = set.iter().filter(is_about).collect();
        for (call, expected) in calls.iter().zip(&order) {
            assert!(call.contains(expected), "{call}, expected {expected}");
        }
        assert_eq!(calls.len(), order.len());
    });
}

#[test]
fn pod_routes_of_both_address_families_are_set_and_removed() {
    Machine::with_each_shell(|machine| {
        let [set, removed] = calls(
            machine,
            "pods 10.244.0.0/16\npods fd00::/56\nroute 10.244.1.0/24 192.0.2.12\nroute fd00:0:0:1::/64 fdab::12\n",
            r#"*-6*show*) echo "fd00:9::/64 via fdab::9 dev eth0 metric 1024 pref medium" ;;"#,
        );
        let routes = [
            "ip -4 route show proto 187",
            "ip -6 route show proto 187",
            "ip -6 route del fd00:9::/64 proto 187",
            "ip -4 route replace 10.244.1.0/24 via 192.0.2.12 proto 187",
            "ip -6 route replace fd00:0:0:1::/64 via fdab::12 proto 187",
        ];
        let routes = routes.map(str::to_owned);
        let ipv4 = |options: &[&str]| rules("iptables", "10.244.0.0/16", options);
        let ipv6 = |options: &[&str]| rules("ip6tables", "fd00::/56", options);
        let (add, end) = (["-C", "-A"], ["sleep 15".to_owned()]);
        assert_eq!(set, all(&[&routes, &ipv4(&add), &ipv6(&add), &end]));
        let flush = |family: &str| [format!("ip -{family} route flush proto 187")];
        let expected = all(&[&flush("4"), &ipv4(&["-D"]), &flush("6"), &ipv6(&["-D"])]);
        assert_eq!(removed, expected);
    });
}

/// Arguments of the restart of flannel.
pub(super) const FLANNEL: [&str; 2] = ["r1", "10.244.1.1/24"];
/// Arguments of the bridge.
pub(super) const BRIDGE: [&str; 1] = ["10.244.1.1/24"];

/// Gives a machine a runtime with a pod and flannel, and a bridge with an address.
pub(super) fn with_bridge(machine: &Machine, address: &str) {
    machine.fake(
        "crictl",
        "[ \"$1\" != --timeout ] || shift 2\n\
         case $1 in\n\
         ps) cat /run/kubexm/flannel ;;\n\
         stop) echo \"$4-again\" >/run/kubexm/flannel; cat /root/next >/run/flannel/subnet.env ;;\n\
         pods) [ ! -e /root/pods ] || cat /root/pods ;;\n\
         inspectp) sed -n \"s/^$2 \\(.*\\)/\\\"network\\\": \\\"\\1\\\"/p\" /root/pods ;;\n\
         rmp) [ ! -e /root/stuck ] || exit 1; sed -i \"/^$3 /d\" /root/pods ;;\n\
         esac",
    );
    machine.fake(
        "ip",
        "case $* in\n\
         *addr*) [ ! -e /root/bridge ] || cat /root/bridge ;;\n\
         'link delete cni0') rm /root/bridge ;;\n\
         esac",
    );
    machine.fake("systemctl", "");
    machine.fake("systemd-run", "");
    machine.fake("sleep", "");
    machine.write("/run/kubexm/flannel", "f1\n");
    machine.write("/root/pods", "own POD\nstatic NODE\n");
    let line = format!("7: cni0    inet {address} brd 10.244.255.255 scope global cni0\n");
    machine.write("/root/bridge", &line);
    machine.write("/run/flannel/subnet.env", "FLANNEL_SUBNET=10.244.4.1/24\n");
    machine.write(
        "/root/next",
        "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\n",
    );
}

/// Returns the status of a check, and what it printed.
fn checked(machine: &Machine, check: Script, arguments: &[&str]) -> (i32, String) {
    let ended = machine.run(check, arguments);
    (ended.status, ended.printed)
}

#[test]
fn bridge_with_another_subnet_goes_with_its_pods() {
    let [follows, follow] = ["follows", "follow"].map(|verb| network::POD_BRIDGE.verb(verb));
    Machine::with_each_shell(|machine| {
        with_bridge(machine, "10.244.4.1/24");
        let differs = "the bridge cni0 has the address 10.244.4.1/24, not 10.244.1.1/24\n";
        assert_eq!(checked(machine, follows, &BRIDGE), (1, differs.to_owned()));
        machine.done(follow, &BRIDGE);
        machine.done(follows, &BRIDGE);
        assert!(!machine.has("/root/bridge"));
        assert_eq!(machine.read("/root/pods"), "static NODE\n");
        with_bridge(machine, "10.244.1.1/24");
        machine.done(follow, &BRIDGE);
        machine.done(follows, &BRIDGE);
        assert!(machine.has("/root/bridge"));
        assert_eq!(machine.read("/root/pods"), "own POD\nstatic NODE\n");
    });
}

#[test]
fn flannel_starts_once_more_in_a_restore() {
    let [follows, restart] = ["follows", "restart"].map(|verb| network::FLANNEL_RESTART.verb(verb));
    let not_yet = |reason: &str| (1, format!("{reason}\n"));
    Machine::with_each_shell(|machine| {
        with_bridge(machine, "10.244.1.1/24");
        let polled = || checked(machine, follows, &["r1"]);
        let began = not_yet("flannel has not started again");
        assert_eq!(checked(machine, follows, &FLANNEL), began);
        machine.done(restart, &FLANNEL);
        assert_eq!(machine.read("/run/kubexm/flannel"), "f1-again\n");
        assert_eq!(polled(), (0, String::new()));
        machine.done(follows, &FLANNEL);
        // The node has got another subnet since.
        assert_eq!(checked(machine, follows, &["r1", "10.244.7.1/24"]), began);
        // An interrupted run has not ended the container.
        machine.write("/run/kubexm/flannel", "f1\n");
        assert_eq!(polled(), not_yet("it does not start again"));
        machine.write("/run/kubexm/flannel", "");
        assert_eq!(polled(), not_yet("it does not start again"));
        machine.write("/run/kubexm/flannel", "f2\n");
        machine.write("/run/flannel/subnet.env", "FLANNEL_SUBNET=10.244.4.1/24\n");
        let other = not_yet("flannel has 10.244.4.1/24, not 10.244.1.1/24");
        assert_eq!(polled(), other);
    });
}

#[test]
fn pods_of_an_install_before_the_restore_go_once() {
    Machine::with_each_shell(|machine| {
        with_bridge(machine, "10.244.1.1/24");
        let (of_backup, file) = ("FLANNEL_SUBNET=10.244.7.1/24\n", "/run/flannel/subnet.env");
        machine.write(file, "FLANNEL_SUBNET=10.244.1.1/24\n");
        machine.write("/root/next", of_backup);
        assert_eq!(
            machine
                .run(network::POD_BRIDGE.verb("cleared"), &["r1"])
                .status,
            1
        );
        machine.done(network::POD_BRIDGE.verb("clear"), &["r1"]);
        machine.done(network::POD_BRIDGE.verb("cleared"), &["r1"]);
        assert_eq!(machine.read("/root/pods"), "static NODE\n");
        assert!(!machine.has("/root/bridge"));
        assert_eq!(machine.read(file), of_backup);
    });
}

#[test]
fn bridge_stays_until_its_pods_have_ended() {
    Machine::with_each_shell(|machine| {
        with_bridge(machine, "10.244.4.1/24");
        machine.write("/root/stuck", "");
        let ended = machine.run(network::POD_BRIDGE.verb("follow"), &BRIDGE);
        assert_eq!(
            (ended.status, ended.complained.as_str()),
            (1, "pods do not end: own \n")
        );
        assert!(machine.has("/root/bridge"));
        let calls = machine.calls();
        let kubelet = calls.iter().rfind(|call| call.contains("kubelet.service"));
        assert_eq!(kubelet.unwrap(), "systemctl start kubelet.service");
    });
}

#[test]
fn node_without_flannel_is_complete_if_the_subnet_is_right() {
    Machine::with_each_shell(|machine| {
        with_bridge(machine, "10.244.1.1/24");
        machine.write("/run/kubexm/flannel", "");
        let (of_backup, file) = ("FLANNEL_SUBNET=10.244.7.1/24\n", "/run/flannel/subnet.env");
        machine.write(file, "FLANNEL_SUBNET=10.244.1.1/24\n");
        machine.write("/root/next", of_backup);
        let [follows, restart] =
            ["follows", "restart"].map(|verb| network::FLANNEL_RESTART.verb(verb));
        machine.done(restart, &FLANNEL);
        assert_eq!(checked(machine, follows, &FLANNEL).0, 1);
        // It has had a minute.
        let mark = machine.at("/var/lib/kubexm/restore/r1/flannel");
        let mark = std::fs::File::options().append(true).open(mark).unwrap();
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(61);
        mark.set_modified(time).unwrap();
        machine.done(follows, &FLANNEL);
    });
}
