//! Networks, firewalls and name servers of the site.

use super::*;
use kubexm_config::cluster::IpFamilies;

/// The addresses of the site that pods or services have are out of reach, and their senders get no answer.
#[test]
fn networks_of_the_site_must_not_be_those_of_the_cluster() {
    let mut dual = cluster("", "");
    let both =
        |nets: [&str; 2]| IpFamilies::from_list(&nets.map(|net| net.parse().unwrap())).unwrap();
    dual.network.pod_cidr = both(["10.244.0.0/16", "fd00:10:244::/56"]);
    dual.network.service_cidr = both(["10.96.0.0/12", "fd00:10:96::/112"]);
    for (line, fatal) in [
        ("10.244.8.0/24 eth1 -", true),
        ("10.100.0.7 eth1 -", true),
        ("fd00:10:244:3::/64 eth1 -", true),
        ("10.99.0.0/16 eth0 192.0.2.1", false),
        ("10.99.0.0/16 - several", false),
    ] {
        let found = in_cluster(
            &dual,
            "node1",
            &Facts::default(),
            &format!("network={line}"),
        );
        assert_eq!(found.len(), 1, "{line}: {found:#?}");
        assert_eq!(
            (found[0].kind, found[0].fatal),
            (FindingKind::Routes, fatal)
        );
    }
    let many = "network=10.99.0.0/16 eth0 192.0.2.1\nnetwork=10.98.0.0/16 eth0 192.0.2.1";
    let one = only("", many);
    assert!(one.what.contains("and 1 more"), "{one}");
    for harmless in [
        "192.0.2.0/24 eth0 -",
        "10.0.0.0/8 eth0 192.0.2.1",
        "10.244.1.0/24 cni0 -",
        "10.244.2.0/24 flannel.1 10.244.2.0",
        "10.244.3.7 cali12345 -",
        "10.96.0.10 kube-ipvs0 -",
    ] {
        assert_eq!(found("", &format!("network={harmless}")), [], "{harmless}");
    }
    assert_eq!(
        on(
            "registry1",
            &Facts::default(),
            "",
            "network=10.244.8.0/24 eth1 -"
        ),
        []
    );
}

/// Pods of one family send no packets of the other one.
#[test]
fn tables_of_a_family_that_pods_do_not_have_drop_none_of_their_packets() {
    assert_eq!(found("", "forward=ip6 hardening"), []);
    let mut six = cluster("", "");
    six.network.pod_cidr = IpFamilies::from_list(&["fd00:10:244::/56".parse().unwrap()]).unwrap();
    let of_six = |table: &str| {
        let answers = format!("forward={table} hardening");
        in_cluster(&six, "node1", &Facts::default(), &answers).len()
    };
    assert_eq!(["ip", "ip6", "inet"].map(of_six), [0, 1, 1]);
}

const REFUSE: &str = "rule=-A INPUT -j REJECT --reject-with icmp-host-prohibited";

#[test]
fn rules_that_drop_packets_to_ports_of_the_cluster_are_named_with_the_ports() {
    for answers in [REFUSE, "rule=:INPUT DROP [0:0]", "input=filter"] {
        let finding = only("", answers);
        assert!(
            !finding.fatal && finding.kind == FindingKind::Firewall,
            "{finding}"
        );
        let ports = "10250/tcp, 2379-2380/tcp, 5000/tcp, 6443/tcp, 8472/udp";
        assert!(finding.what.contains(ports), "{finding}");
    }
    let some = "accept=-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\naccept=-A INPUT -i lo -j ACCEPT\n\
                accept=-A INPUT -p icmp -j ACCEPT\naccept=-A FORWARD -j ACCEPT\n\
                accept=-A INPUT -p tcp -m multiport --dports 22,2379:2380,5000,6443 -m comment --comment x -j ACCEPT";
    let finding = only("", &format!("{REFUSE}\n{some}"));
    assert!(
        finding.what.ends_with("and no rule accepts them"),
        "{finding}"
    );
    assert!(
        finding.what.contains("to 10250/tcp, 8472/udp:"),
        "{finding}"
    );
    let commands = "iptables -I INPUT -p tcp -m multiport --dports 10250 -j ACCEPT && iptables -I INPUT -p udp";
    assert!(finding.hint.contains(commands), "{finding}");
    let one = only("", "rule=own: udp dport 8472 drop");
    assert!(one.what.contains("to 8472/udp:"), "{one}");
    for accepted in [
        "accept=-A INPUT -s 192.0.2.0/24 -j ACCEPT",
        "accept=filter: ip saddr 192.0.2.0/24 accept",
        "accept=filter: ct state new tcp dport { 22, 2379-2380, 5000, 6443, 10250 } accept\naccept=filter: udp dport 8472 accept",
    ] {
        assert_eq!(
            found("", &format!("{REFUSE}\ninput=filter\n{accepted}")),
            [],
            "{accepted}"
        );
    }
    // Preflight compares the settings of firewalld, which writes such rules.
    let firewalld = Facts {
        firewalld: Some(Vec::new()),
        ..Facts::default()
    };
    assert_eq!(on("node1", &firewalld, "", REFUSE), []);
}

/// flannel appends its rules behind it.
#[test]
fn rule_that_refuses_every_forwarded_packet_is_refused_with_flannel() {
    let rule = "rule=-A FORWARD -j REJECT --reject-with icmp-host-prohibited";
    let finding = only("", rule);
    assert!(finding.fatal, "{finding}");
    assert!(
        finding
            .hint
            .contains("iptables -I FORWARD -s 10.244.0.0/16 -j ACCEPT && "),
        "{finding}"
    );
    let accepted = "accept=-A FORWARD -s 10.244.0.0/16 -j ACCEPT\naccept=-A FORWARD -d 10.244.0.0/16 -j ACCEPT";
    assert_eq!(found("", &format!("{accepted}\n{rule}")), []);
    // Their rules come first, or they append to the policy.
    for plugin in ["bridge", "calico", "cilium"] {
        assert_eq!(
            found(&format!("network: {{plugin: {plugin}}}"), rule),
            [],
            "{plugin}"
        );
    }
    assert_eq!(found("", "rule=:FORWARD DROP [0:0]"), []);
    assert_eq!(found("", "rule=-A FORWARD -s 198.51.100.7/32 -j DROP"), []);
}

/// ip6tables and iptables have rules of their own, and so have tables of nftables.
#[test]
fn rules_count_for_the_address_family_of_the_hosts_and_the_pods() {
    let refuse = "rule6=-A INPUT -j REJECT --reject-with icmp6-adm-prohibited";
    let forwarding = "rule6=-A FORWARD -j DROP";
    assert_eq!(
        found("", &format!("{refuse}\n{forwarding}\ninput6=six")),
        []
    );
    let mut dual = cluster("", "");
    let both = |nets: [&str; 2]| IpFamilies::from_list(&nets.map(|net| net.parse().unwrap()));
    dual.network.pod_cidr = both(["10.244.0.0/16", "fd00:10:244::/56"]).unwrap();
    for (at, host) in dual.hosts.iter_mut().enumerate() {
        let six: std::net::IpAddr = format!("fd00::{}", at + 1).parse().unwrap();
        let addresses = [host.internal_address(), six];
        host.internal_addresses = IpFamilies::from_list(&addresses).unwrap();
    }
    let on = |answers: &str| in_cluster(&dual, "node1", &Facts::default(), answers);
    let closed = on(refuse);
    assert_eq!(closed.len(), 1, "{closed:#?}");
    let ports = "a firewall drops packets of IPv6 to 10250/tcp";
    assert!(closed[0].what.contains(ports), "{}", closed[0]);
    assert!(
        closed[0].hint.contains("ip6tables -I INPUT -p tcp"),
        "{}",
        closed[0]
    );
    let bans = "rule6=-A INPUT -s fd00::9/128 -p tcp --dport 6443 -j DROP";
    assert_eq!(on(bans), []);
    assert_eq!(
        on(&format!(
            "{refuse}\naccept6=-A INPUT -s fd00::/64 -j ACCEPT"
        )),
        []
    );
    assert_eq!(
        on(&format!(
            "{refuse}\naccept=-A INPUT -s 192.0.2.0/24 -j ACCEPT"
        ))
        .len(),
        1
    );
    let dropped = on(forwarding);
    assert_eq!(dropped.len(), 1, "{dropped:#?}");
    assert!(dropped[0].fatal, "{}", dropped[0]);
    let command = "ip6tables -I FORWARD -s fd00:10:244::/56 -j ACCEPT && ";
    assert!(dropped[0].hint.contains(command), "{}", dropped[0]);
}

/// In a pod, an address of the loopback interface is that of the pod: CoreDNS ends.
#[test]
fn name_server_that_is_the_host_itself_is_refused() {
    let own = "resolver=/etc/resolv.conf 127.0.0.1";
    let finding = only("", own);
    assert!(
        finding.fatal && finding.kind == FindingKind::DnsServers,
        "{finding}"
    );
    assert!(finding.hint.contains("spec.dns.upstreams"), "{finding}");
    let resolved = "resolved=active\nresolver=/etc/resolv.conf 127.0.0.53\nresolver=/run/systemd/resolve/resolv.conf 192.0.2.53";
    assert_eq!(found("", resolved), []);
    assert_eq!(found("dns: {upstreams: [192.0.2.53]}", own), []);
    assert_eq!(
        found("system: {resolvers: {servers: [192.0.2.53]}}", own),
        []
    );
    assert_eq!(on("registry1", &Facts::default(), "", own), []);
}

#[test]
fn bridge_of_an_earlier_cluster_is_refused() {
    let finding = only("", "cni0=10.85.0.1/16\ncni0=fe80::1/64");
    assert!(
        finding.fatal && finding.hint.ends_with("ip link delete cni0"),
        "{finding}"
    );
    assert_eq!(found("", "cni0=fe80::1/64"), []);
    assert_eq!(found("network: {plugin: calico}", "cni0=10.85.0.1/16"), []);
}
