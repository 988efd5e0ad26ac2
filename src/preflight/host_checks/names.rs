//! Name servers that pods get.

use std::net::IpAddr;

use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const NAME_SERVERS: HostCheck = HostCheck {
    kind: FindingKind::DnsServers,
    when: When::BeforeInstall,
    read: "the resolv.conf that the kubelet would give to CoreDNS",
    find: name_servers,
};

/// The file of nodes without systemd-resolved, and the one of nodes with it.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// Returns whether a name server is the machine that asks: in a pod, the pod itself.
pub fn is_loopback(server: &str) -> bool {
    server
        .parse()
        .is_ok_and(|address: IpAddr| address.is_loopback())
}

fn name_servers(asked: &Asked<'_>) -> Vec<Problem> {
    let cluster = asked.cluster;
    // With servers of its own, CoreDNS does not use those of the node. An install changes resolv.conf if the cluster file has
    // servers for hosts.
    let is_used = cluster.dns.upstreams.is_empty() && cluster.system.resolvers.is_none();
    if !is_used || !cluster.is_node(asked.host) {
        return Vec::new();
    }
    let given = cluster.kubernetes.kubelet.extra_config["resolvConf"].as_str();
    let has_resolved = asked.answers.one("resolved").is_some();
    let file = given.unwrap_or(FILES[usize::from(has_resolved)]);
    let servers = asked.answers.all("resolver").iter();
    let servers = servers.filter_map(|line| line.strip_prefix(file)?.strip_prefix(' '));
    let mut own = servers.filter(|server| is_loopback(server));
    let Some(server) = own.next() else {
        return Vec::new();
    };
    vec![Problem {
        breaks: true,
        is_later: false,
        what: format!("{file} has the name server {server}, which is this host itself"),
        evidence: vec![format!("{file}: nameserver {server}")],
        cause:
            "in a pod, this is the pod: CoreDNS would send queries to itself, find a loop and end"
                .to_owned(),
        fix: format!(
            "set spec.dns.upstreams to the name servers of the site, or write them to {file}"
        ),
        commands: Vec::new(),
    }]
}
