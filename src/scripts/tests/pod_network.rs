//! Scripts of the plugin `bridge`: subnets of pods, and routes to them.

use super::machine::Machine;
use crate::network;

#[test]
fn script_waits_for_pod_subnets() {
    Machine::with_each_shell(|machine| {
        machine.fake("sleep", "");
        // The second node has its subnet when it is asked for the third time.
        machine.fake(
            "kubectl",
            "asked=$(grep -c ^kubectl /root/calls)\n\
             echo 'node1 192.0.2.11 10.244.0.0/24'\n\
             if [ \"$asked\" -lt 3 ]; then echo 'node2 192.0.2.12'; else echo 'node2 192.0.2.12 10.244.1.0/24'; fi",
        );
        let printed = machine.done(network::POD_SUBNETS, &["node1", "node2"]);
        assert_eq!(
            printed,
            "node1 192.0.2.11 10.244.0.0/24\nnode2 192.0.2.12 10.244.1.0/24\n"
        );
        let ended = machine.run(network::POD_SUBNETS, &["node1", "node3"]);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("no pod subnet: node3 ("),
            "{}",
            ended.complained
        );
    });
}

/// Sets the routes of a configuration and removes them. Returns the calls of both; `routes` are those that exist before.
fn calls(machine: &Machine, config: &str, routes: &str) -> [Vec<String>; 2] {
    machine.fake("ip", &format!("case $* in {routes} esac"));
    for program in ["iptables", "ip6tables"] {
        machine.fake(program, "case $* in *-A*) ;; *) exit 1 ;; esac");
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

/// Returns the rule that translates addresses of pods.
fn rule(pods: &str) -> String {
    format!(
        "POSTROUTING -s {pods} ! -d {pods} -m comment --comment kubexm pod network -j MASQUERADE"
    )
}

#[test]
fn pod_routes_are_set_and_removed() {
    Machine::with_each_shell(|machine| {
        let [set, removed] = calls(
            machine,
            "# Written by kubexm.\npods 10.244.0.0/16\nroute 10.244.1.0/24 192.0.2.12\nroute 10.244.2.0/24 192.0.2.13\n",
            r#"*show*) echo "10.244.9.0/24 via 192.0.2.9" ;;"#,
        );
        let rule = rule("10.244.0.0/16");
        assert_eq!(
            set,
            [
                "ip -4 route show proto 187".to_owned(),
                "ip -4 route del 10.244.9.0/24 proto 187".to_owned(),
                "ip -4 route replace 10.244.1.0/24 via 192.0.2.12 proto 187".to_owned(),
                "ip -4 route replace 10.244.2.0/24 via 192.0.2.13 proto 187".to_owned(),
                format!("iptables -w -t nat -C {rule}"),
                format!("iptables -w -t nat -A {rule}"),
                "sleep 15".to_owned(),
            ]
        );
        assert_eq!(
            removed,
            [
                "ip -4 route flush proto 187".to_owned(),
                format!("iptables -w -t nat -D {rule}"),
            ]
        );
        assert_eq!(machine.run(network::POD_ROUTES, &[]).status, 2);
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
        let (ipv4, ipv6) = (rule("10.244.0.0/16"), rule("fd00::/56"));
        assert_eq!(
            set,
            [
                "ip -4 route show proto 187".to_owned(),
                "ip -6 route show proto 187".to_owned(),
                "ip -6 route del fd00:9::/64 proto 187".to_owned(),
                "ip -4 route replace 10.244.1.0/24 via 192.0.2.12 proto 187".to_owned(),
                "ip -6 route replace fd00:0:0:1::/64 via fdab::12 proto 187".to_owned(),
                format!("iptables -w -t nat -C {ipv4}"),
                format!("iptables -w -t nat -A {ipv4}"),
                format!("ip6tables -w -t nat -C {ipv6}"),
                format!("ip6tables -w -t nat -A {ipv6}"),
                "sleep 15".to_owned(),
            ]
        );
        assert_eq!(
            removed,
            [
                "ip -4 route flush proto 187".to_owned(),
                format!("iptables -w -t nat -D {ipv4}"),
                "ip -6 route flush proto 187".to_owned(),
                format!("ip6tables -w -t nat -D {ipv6}"),
            ]
        );
    });
}
