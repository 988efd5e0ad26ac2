//! Rules of iptables and nftables that drop packets of the cluster, without a program that manages them.

use kubexm_config::cluster::PluginKind;
use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};
use super::rules::{Fit, Packets, drops_all, is_about_forwarding};
use crate::firewall::{Opening, openings};

pub(super) const INPUT: HostCheck = HostCheck {
    kind: FindingKind::Firewall,
    when: When::BeforeInstall,
    read: "rules of iptables and nftables that drop packets to ports of the cluster",
    find: input,
};

pub(super) const FORWARDED: HostCheck = HostCheck {
    kind: FindingKind::Firewall,
    when: When::BeforeInstall,
    read: "rules of iptables that drop every packet that the host forwards",
    find: forwarded,
};

/// Returns whether firewalld or ufw write the rules. Preflight reports what these block by their own settings.
fn is_managed(asked: &Asked<'_>) -> bool {
    asked.facts.ufw || asked.facts.firewalld.is_some()
}

/// Returns the packets to the ends of a range of ports.
fn packets((ports, kind): &Opening) -> Vec<Packets> {
    let ports = ports.split('-').filter_map(|port| port.parse().ok());
    let of_port = |port| match *kind {
        "udp" => Packets::Udp(port),
        _ => Packets::Tcp(port),
    };
    ports.map(of_port).collect()
}

fn input(asked: &Asked<'_>) -> Vec<Problem> {
    if is_managed(asked) {
        return Vec::new();
    }
    let is_of_cluster = |address| asked.cluster.host_at(address).is_some();
    let dropping: Vec<&String> = asked.answers.all("rule").iter().collect();
    let accepting = asked.answers.all("accept");
    let tables = asked.answers.all("input");
    let mut reasons: Vec<String> = Vec::new();
    let mut closed: Vec<Opening> = Vec::new();
    for opening in openings(asked.cluster, asked.host) {
        let is_dropped = packets(&opening).into_iter().any(|packets| {
            if accepting.iter().any(|rule| packets.are_accepted_by(rule)) {
                return false;
            }
            let rules = dropping.iter().filter(|rule| {
                let is_of_input = rule.starts_with("-A INPUT ") || rule.starts_with(":INPUT ");
                packets.fit(rule, is_of_cluster) == Fit::Names || is_of_input && drops_all(rule)
            });
            let rules: Vec<String> = rules.map(|rule| (*rule).clone()).collect();
            let of_tables = tables.iter().map(|table| format!("the policy of {table}"));
            let found: Vec<String> = rules.into_iter().chain(of_tables).collect();
            reasons.extend(found.iter().cloned());
            !found.is_empty()
        });
        if is_dropped {
            closed.push(opening);
        }
    }
    reasons.sort();
    reasons.dedup();
    if closed.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = closed
        .iter()
        .map(|(port, kind)| format!("{port}/{kind}"))
        .collect();
    vec![Problem {
        breaks: false,
        is_later: false,
        what: format!("a firewall drops packets to {}", names.join(", ")),
        cause: format!(
            "{} comes to them, and no rule accepts them",
            reasons.join(" or ")
        ),
        evidence: reasons,
        fix: "accept them before that rule, also where the next boot reads the rules".to_owned(),
        commands: if tables.is_empty() {
            accept(&closed)
        } else {
            Vec::new()
        },
    }]
}

/// Returns the commands that accept packets to these ports.
fn accept(closed: &[Opening]) -> Vec<String> {
    let of = |wanted: &str| {
        let ports = closed.iter().filter(|(_, kind)| *kind == wanted);
        let ports: Vec<String> = ports.map(|(port, _)| port.replace('-', ":")).collect();
        (!ports.is_empty()).then(|| {
            let ports = ports.join(",");
            format!("iptables -I INPUT -p {wanted} -m multiport --dports {ports} -j ACCEPT")
        })
    };
    ["tcp", "udp"].into_iter().filter_map(of).collect()
}

/// flannel appends its rules, so that one in front of them that drops everything counts
/// (<https://github.com/flannel-io/flannel/issues/1033>). Those of the other plugins come first, and so do those of kubexm.
fn forwarded(asked: &Asked<'_>) -> Vec<Problem> {
    let plugin = asked.cluster.network.plugin.kind();
    if is_managed(asked) || plugin != PluginKind::Flannel || !asked.cluster.is_node(asked.host) {
        return Vec::new();
    }
    let pods = asked.cluster.network.pod_cidr.iter();
    // iptables has the rules of IPv4.
    let Some(pods) = pods
        .map(|net| net.to_string())
        .find(|net| !net.contains(':'))
    else {
        return Vec::new();
    };
    let mut dropping = asked.answers.all("rule").iter();
    let rule = dropping.find(|rule| rule.starts_with("-A FORWARD ") && drops_all(rule));
    let accepting = asked.answers.all("accept").iter();
    let mut accepting = accepting.filter(|rule| is_about_forwarding(rule));
    let is_accepted = accepting.clone().any(|rule| {
        let names_pods = rule.split(' ').any(|word| word == pods);
        names_pods || drops_all(rule)
    });
    let Some(rule) = rule.filter(|_| !is_accepted) else {
        return Vec::new();
    };
    let accept = |option: &str| format!("iptables -I FORWARD {option} {pods} -j ACCEPT");
    // Another rule may accept them by its network or interface.
    let may_accept = accepting.any(|rule| !rule.contains("--ctstate"));
    vec![Problem {
        breaks: !may_accept,
        is_later: false,
        what: format!("iptables drops every packet that the host forwards: {rule}"),
        evidence: vec![rule.clone()],
        cause: "flannel appends its own rules behind it, so that pods reach neither pods of other nodes nor services".to_owned(),
        fix: "accept the packets of pods before that rule, also where the next boot reads the rules".to_owned(),
        commands: vec![accept("-s"), accept("-d")],
    }]
}
