//! What several hosts report together: members of etcd, and the address of the API servers.

use super::*;
use crate::status::{About, Problem, ProblemKind};
use kubexm_config::cluster::IpFamilies;
use kubexm_config::example::{ROLES, cluster_of};

fn problem(host: &str, kind: ProblemKind) -> Problem {
    Problem::new(About::Etcd, "etcd has an alarm", "")
        .of_kind(kind)
        .on(&name(host))
}

fn of(report: &DoctorReport, check: &str) -> crate::doctor::Finding {
    let mut all = report.findings.iter();
    all.find(|found| found.check == check).unwrap().clone()
}

#[test]
fn members_without_space_share_one_compaction() {
    let mut seen = seen(HOST, RUNTIME);
    seen.cluster.etcd = kubexm_session::example::cluster_of_units().etcd;
    for host in ["node1", "node2"] {
        seen.report
            .problems
            .push(problem(host, ProblemKind::DatabaseFull));
    }
    let found = of(&judge(&seen), "etcd-alarm");
    assert_eq!(found.hosts, [name("node1"), name("node2")]);
    let words = [
        "compact",
        "node1 -- etcdctl --command-timeout=60s defrag",
        "node2 -- etcdctl --command-timeout=60s defrag",
        "node1 -- etcdctl alarm disarm",
    ];
    assert_eq!(found.commands.len(), words.len(), "{:?}", found.commands);
    for (command, word) in found.commands.iter().zip(words) {
        assert!(command.contains(word), "{command}");
    }
}

#[test]
fn other_data_of_a_member_has_a_cause_and_a_comparison() {
    let mut seen = seen(HOST, RUNTIME);
    seen.cluster.etcd = kubexm_session::example::cluster_of_units().etcd;
    seen.report
        .problems
        .push(problem("node1", ProblemKind::Alarm));
    let found = of(&judge(&seen), "etcd-alarm");
    assert!(
        found.cause.contains("differs") && found.fix.contains("alarm disarm"),
        "{found:?}"
    );
    assert!(
        found.commands[0].contains("endpoint hashkv --cluster"),
        "{:?}",
        found.commands
    );
}

/// Returns a cluster whose worker holds the address 192.0.2.100, and the addresses of its hosts.
fn with_address(holders: &[&str], host: &str) -> Seen {
    let mut seen = seen(host, RUNTIME);
    let group = if host == HOST {
        "node2"
    } else {
        "node1, node2"
    };
    let cluster = cluster_of(
        &format!("{ROLES}, loadbalancer: [{group}]"),
        "",
        "highAvailability: {type: keepalived-haproxy}\ncontrolPlaneEndpoint: 192.0.2.100:8443",
    );
    seen.cluster.high_availability.kind = cluster.high_availability.kind;
    seen.cluster.roles = cluster.roles;
    seen.cluster.control_plane_endpoint = cluster.control_plane_endpoint;
    for holder in holders {
        let facts = seen.facts.get_mut(&name(holder)).unwrap();
        facts.addresses.insert("192.0.2.100".parse().unwrap());
    }
    seen
}

#[test]
fn address_belongs_to_one_host_of_the_load_balancer() {
    assert_eq!(causes(&judge(&with_address(&["node2"], HOST))), [""; 0]);
    for (holders, what) in [
        (
            &["node1", "node2"][..],
            "2 hosts have the address 192.0.2.100, also without the load balancer",
        ),
        (
            &["node1"],
            "a host without the load balancer has the address 192.0.2.100",
        ),
        (&[], "no host has the address 192.0.2.100"),
    ] {
        let report = judge(&with_address(holders, HOST));
        assert_eq!(causes(&report), ["virtual-address"], "{holders:?}");
        assert_eq!(of(&report, "virtual-address").what, what);
    }
}

#[test]
fn rule_that_drops_announcements_is_named() {
    for rule in ["-A INPUT -p 112 -j DROP", "-A INPUT -p vrrp -j DROP"] {
        let host = changed(
            HOST,
            "",
            &format!("rule={rule}\nrule=-A INPUT -p tcp -m tcp --dport 112 -j DROP"),
        );
        let report = judge(&with_address(&["node1", "node2"], &host));
        let found = of(&report, "virtual-address");
        assert_eq!(found.what, "2 hosts have the address 192.0.2.100");
        let delete = format!("--host node2 -- iptables -D {}", &rule[3..]);
        assert!(found.commands[0].ends_with(&delete), "{:?}", found.commands);
        assert!(
            !found.commands[1].contains("iptables"),
            "{:?}",
            found.commands
        );
    }
}

#[test]
fn ban_of_an_address_is_not_why_hosts_do_not_hear_each_other() {
    let rules = "rule=-A f2b-sshd -s 198.51.100.7/32 -j REJECT\nrule=-A INPUT -j DROP";
    let host = changed(HOST, "", rules);
    let found = of(
        &judge(&with_address(&["node1", "node2"], &host)),
        "virtual-address",
    );
    assert_eq!(found.evidence, ["node2: -A INPUT -j DROP"]);
    assert_eq!(found.certainty, Certainty::Likely);
    assert!(!found.commands.concat().contains("iptables"), "{found:?}");
}

#[test]
fn commands_have_all_addresses_of_a_host() {
    let mut seen = seen(HOST, RUNTIME);
    seen.nodes = nodes("10.0.2.15");
    let both = ["fd00::12", "192.0.2.12"].map(|text| text.parse().unwrap());
    seen.cluster.hosts[1].internal_addresses = IpFamilies::from_list(&both).unwrap();
    let found = of(&judge(&seen), "node-address");
    assert!(
        found.commands[0].contains("/--node-ip=fd00::12,192.0.2.12/"),
        "{:?}",
        found.commands
    );
}

#[test]
fn etcdctl_asks_the_loopback_address_of_the_member() {
    for (address, endpoint) in [
        ("192.0.2.11", "https://127.0.0.1:2379"),
        ("fd00::11", "https://[::1]:2379"),
    ] {
        let mut seen = seen(HOST, RUNTIME);
        seen.cluster.etcd = cluster("").etcd;
        seen.cluster.hosts[0].internal_addresses =
            IpFamilies::from_list(&[address.parse().unwrap()]).unwrap();
        seen.report
            .problems
            .push(problem("node1", ProblemKind::DatabaseFull));
        let found = of(&judge(&seen), "etcd-alarm");
        assert_eq!(found.commands.len(), 3, "{:?}", found.commands);
        for command in found.commands {
            assert!(command.contains(endpoint), "{command}");
        }
    }
}
