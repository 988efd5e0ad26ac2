//! The address of the API servers: load balancers and virtual addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::rules;
use super::seen::Seen;
use crate::status::ProblemKind;
use kubexm_config::cluster::LoadBalancer;
use kubexm_host::Facts;
use kubexm_preflight::host_checks::Packets;
use kubexm_types::HostName;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "load-balancer",
        area: Area::LoadBalancer,
        source: Source::Hosts,
        read: "the units of haproxy, nginx and keepalived, and the backends in their configurations",
        run: balancer,
    },
    Check {
        id: "virtual-address",
        area: Area::LoadBalancer,
        source: Source::Hosts,
        read: "which hosts have the address of the endpoint",
        run: address,
    },
    Check {
        id: "endpoint",
        area: Area::LoadBalancer,
        source: Source::Nodes,
        read: "/readyz at spec.controlPlaneEndpoint, asked from each node",
        run: endpoint,
    },
];

fn balancer(seen: &Seen) -> Outcome {
    let mut all: Vec<Found> = seen
        .problems("load-balancer")
        .map(|problem| {
            let found = Found::of(problem)
                .cause("nodes that use this load balancer do not reach an API server");
            let unit = problem.program();
            match &problem.host {
                Some(host) if unit.ends_with(".service") => {
                    let unit = kubexm_session::quoting::quoted(unit);
                    let found = if problem.kind == ProblemKind::Masked {
                        found.run(seen.line.on(host, &format!("systemctl unmask {unit}")))
                    } else {
                        found
                    };
                    found.run(seen.line.on(host, &format!("systemctl start {unit}")))
                }
                _ => found,
            }
        })
        .collect();
    let servers = seen.cluster.roles.control_plane.iter();
    let servers = servers.filter_map(|name| seen.cluster.host(name));
    let servers: BTreeSet<String> = servers
        .map(|host| seen.cluster.api_server(host).to_string())
        .collect();
    for (host, answers) in seen.hosts() {
        let backends: BTreeSet<String> = answers.all("backend").iter().cloned().collect();
        if backends.is_empty() || backends == servers {
            continue;
        }
        let lists = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
        let found = Found::new("the load balancer does not have the control planes as its backends")
            .on(host)
            .evidence([
                format!("backends: {}", lists(&backends)),
                format!("control planes: {}", lists(&servers)),
            ])
            .cause("a control plane was added or removed without the load balancer, or its configuration was changed by hand")
            .fix("write the configuration of the install again")
            .run(seen.line.install());
        all.push(found);
    }
    Outcome::Known(all)
}

fn address(seen: &Seen) -> Outcome {
    let endpoint = &seen.cluster.control_plane_endpoint;
    if !seen.cluster.high_availability.kind.holds_address() {
        return Outcome::Known(Vec::new());
    }
    let Some(address) = endpoint.address.or_else(|| endpoint.host.parse().ok()) else {
        return Outcome::Unknown("the DNS of the site resolves the endpoint".to_owned());
    };
    let group = match seen.cluster.high_availability.kind {
        LoadBalancer::Pods { .. } => &seen.cluster.roles.control_plane,
        _ => &seen.cluster.roles.load_balancer,
    };
    let known = group.iter().filter(|host| seen.facts.contains_key(*host));
    let known: Vec<&HostName> = known.collect();
    // Also a host outside of the group may have the address, by hand or by another program.
    let has = |(_, facts): &(&HostName, &Facts)| facts.addresses.contains(&address);
    let holders: Vec<&HostName> = seen
        .facts
        .iter()
        .filter(has)
        .map(|(host, _)| host)
        .collect();
    let others: Vec<&HostName> = holders
        .iter()
        .filter(|host| !group.contains(host))
        .copied()
        .collect();
    let found = match holders.len() {
        1 if others.is_empty() => return Outcome::Known(Vec::new()),
        0 if known.len() < group.len() => {
            return Outcome::Unknown(format!("no host that answers has {address}"));
        }
        0 => Found::new(format!("no host has the address {address}"))
            .cause("the program that holds the address does not run, or its election fails")
            .fix("start keepalived or kube-vip; with kube-vip, it needs an API server"),
        _ if !others.is_empty() => held_outside(seen, address, &holders, &others),
        _ => several(seen, address, &holders),
    };
    let host = known.first().copied().unwrap_or(seen.administrator());
    let program = match seen.cluster.high_availability.kind {
        LoadBalancer::Pods { .. } => "kube-vip",
        _ => "keepalived",
    };
    Outcome::Known(vec![found.run(seen.line.logs(program, host))])
}

/// Returns the finding that hosts have the address, and that `others` of them do not run the load balancer.
fn held_outside(
    seen: &Seen,
    address: IpAddr,
    holders: &[&HostName],
    others: &[&HostName],
) -> Found {
    let what = match holders.len() {
        1 => format!("a host without the load balancer has the address {address}"),
        count => {
            format!("{count} hosts have the address {address}, also without the load balancer")
        }
    };
    let mut found = Found::new(what)
        .evidence(others.iter().map(|host| format!("{host} is not a host of the load balancer")))
        .cause("the address was added to a host by hand or by another program: packets to it may arrive there")
        .fix("remove the address from the host that does not run the load balancer");
    found.hosts = holders.iter().map(|host| (*host).clone()).collect();
    for host in others {
        found = found.run(seen.line.on(host, &format!("ip -o addr show to {address}")));
    }
    found
}

/// Returns the finding that several hosts of the load balancer have the address.
fn several(seen: &Seen, address: IpAddr, holders: &[&HostName]) -> Found {
    let mut found = Found::new(format!(
        "{} hosts have the address {address}",
        holders.len()
    ));
    found.hosts = holders.iter().map(|host| (*host).clone()).collect();
    if matches!(
        seen.cluster.high_availability.kind,
        LoadBalancer::Pods { .. }
    ) {
        return found
            .cause("the hosts disagree about the lease of the address: kube-vip of one of them hangs, or was killed and left the address")
            .fix("restart kube-vip on the host that does not hold the lease");
    }
    let mut has_rule = false;
    for host in holders {
        let rules = rules::dropping(seen, host, Packets::Vrrp);
        has_rule |= rules.name_them();
        found = rules.explain(seen, host, found);
    }
    found = found
        .cause("the hosts do not hear each other: a firewall drops VRRP (IP protocol 112) between them")
        .fix("permit protocol 112 between the hosts");
    if has_rule { found } else { found.likely() }
}

fn endpoint(seen: &Seen) -> Outcome {
    let state = &seen.report.endpoint;
    if state.answers.is_empty() && state.silent.is_empty() {
        return Outcome::Unknown("no node answers".to_owned());
    }
    let found = seen.problems("endpoint").map(|problem| {
        let mut found = Found::of(problem)
            .cause("kubelets and controllers reach the API servers there; the API servers themselves may work")
            .likely();
        found.hosts.clone_from(&state.silent);
        let server = seen.administrator();
        found.run(seen.line.on(server, "kubectl --kubeconfig /etc/kubernetes/admin.conf get --raw /readyz?verbose"))
    });
    Outcome::Known(found.collect())
}
