//! Rules of iptables and nftables that drop packets of the cluster, without a program that manages them.

use kubexm_config::cluster::{IpFamily, OfFamily, PluginKind};
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

/// What a host answered about packets of an address family.
struct Filter<'a> {
    dropping: &'a [String],
    accepting: &'a [String],
    /// Tables of nftables whose policy drops packets to the host.
    tables: &'a [String],
    /// What packets are called, and the program that changes the rules of iptables.
    packets: &'static str,
    program: &'static str,
}

impl<'a> Filter<'a> {
    fn of(asked: &Asked<'a>, family: IpFamily) -> Self {
        let answers = asked.answers;
        match family {
            IpFamily::V4 => Self {
                dropping: answers.all("rule"),
                accepting: answers.all("accept"),
                tables: answers.all("input"),
                packets: "packets",
                program: "iptables",
            },
            IpFamily::V6 => Self {
                dropping: answers.all("rule6"),
                accepting: answers.all("accept6"),
                tables: answers.all("input6"),
                packets: "packets of IPv6",
                program: "ip6tables",
            },
        }
    }

    /// Returns the commands that accept packets to these ports.
    fn accept(&self, closed: &[Opening]) -> Vec<String> {
        let program = self.program;
        let of = |wanted: &str| {
            let ports = closed.iter().filter(|(_, kind)| *kind == wanted);
            let ports: Vec<String> = ports.map(|(port, _)| port.replace('-', ":")).collect();
            (!ports.is_empty()).then(|| {
                let ports = ports.join(",");
                format!("{program} -I INPUT -p {wanted} -m multiport --dports {ports} -j ACCEPT")
            })
        };
        ["tcp", "udp"].into_iter().filter_map(of).collect()
    }
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
    let mut hosts = asked.cluster.hosts.iter();
    let own = hosts.find(|host| host.name == *asked.host);
    let addresses = own
        .into_iter()
        .flat_map(|own| own.internal_addresses.iter());
    let families = addresses.map(|address| address.family());
    families
        .filter_map(|family| closed(asked, &Filter::of(asked, family)))
        .collect()
}

/// Returns the problem of ports of the cluster to which packets of a family do not get.
fn closed(asked: &Asked<'_>, filter: &Filter<'_>) -> Option<Problem> {
    let is_of_cluster = |address| asked.cluster.host_at(address).is_some();
    let (accepting, tables) = (filter.accepting, filter.tables);
    let mut reasons: Vec<String> = Vec::new();
    let mut closed: Vec<Opening> = Vec::new();
    for opening in openings(asked.cluster, asked.host) {
        let is_dropped = packets(&opening).into_iter().any(|packets| {
            if accepting.iter().any(|rule| packets.are_accepted_by(rule)) {
                return false;
            }
            let rules = filter.dropping.iter().filter(|rule| {
                let is_of_input = rule.starts_with("-A INPUT ") || rule.starts_with(":INPUT ");
                packets.fit(rule, is_of_cluster) == Fit::Names || is_of_input && drops_all(rule)
            });
            let of_tables = tables.iter().map(|table| format!("the policy of {table}"));
            let found: Vec<String> = rules.cloned().chain(of_tables).collect();
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
        return None;
    }
    let names: Vec<String> = closed
        .iter()
        .map(|(port, kind)| format!("{port}/{kind}"))
        .collect();
    let ports = names.join(", ");
    Some(Problem {
        breaks: false,
        is_later: false,
        what: format!("a firewall drops {} to {ports}", filter.packets),
        cause: format!(
            "{} comes to them, and no rule accepts them",
            reasons.join(" or ")
        ),
        evidence: reasons,
        fix: "accept them before that rule, also where the next boot reads the rules".to_owned(),
        commands: if tables.is_empty() {
            filter.accept(&closed)
        } else {
            Vec::new()
        },
    })
}

/// flannel appends its rules, so that one in front of them that drops everything counts
/// (<https://github.com/flannel-io/flannel/issues/1033>). Those of the other plugins come first, and so do those of kubexm.
fn forwarded(asked: &Asked<'_>) -> Vec<Problem> {
    let plugin = asked.cluster.network.plugin.kind();
    if is_managed(asked) || plugin != PluginKind::Flannel || !asked.cluster.is_node(asked.host) {
        return Vec::new();
    }
    let pods = asked.cluster.network.pod_cidr.iter();
    let found = pods.filter_map(|net| {
        let filter = Filter::of(asked, net.family());
        dropped(&net.to_string(), &filter)
    });
    found.collect()
}

/// Returns the problem of a network of pods whose packets are dropped in front of the rules of flannel.
fn dropped(pods: &str, filter: &Filter<'_>) -> Option<Problem> {
    let Filter { program, .. } = filter;
    let mut dropping = filter.dropping.iter();
    let rule = dropping.find(|rule| rule.starts_with("-A FORWARD ") && drops_all(rule));
    let accepting = filter.accepting.iter();
    let mut accepting = accepting.filter(|rule| is_about_forwarding(rule));
    let is_accepted = accepting.clone().any(|rule| {
        let names_pods = rule.split(' ').any(|word| word == pods);
        names_pods || drops_all(rule)
    });
    let rule = rule.filter(|_| !is_accepted)?;
    let accept = |option: &str| format!("{program} -I FORWARD {option} {pods} -j ACCEPT");
    // Another rule may accept them by its network or interface.
    let may_accept = accepting.any(|rule| !rule.contains("--ctstate"));
    Some(Problem {
        breaks: !may_accept,
        is_later: false,
        what: format!("{program} drops every packet that the host forwards: {rule}"),
        evidence: vec![rule.clone()],
        cause: "flannel appends its own rules behind it, so that pods reach neither pods of other nodes nor services".to_owned(),
        fix: "accept the packets of pods before that rule, also where the next boot reads the rules".to_owned(),
        commands: vec![accept("-s"), accept("-d")],
    })
}
