//! The ways between hosts, and those of pods.

use std::collections::BTreeSet;

use super::check::{Check, Found, Outcome, Source};
use super::cni;
use super::report::{Area, Certainty};
use super::rules;
use super::seen::{Seen, Way};
use super::shared;
use kubexm_config::cluster::PluginKind;
use kubexm_config::ports;
use kubexm_preflight::host_checks::Packets;
use kubexm_session::quoting::quoted;
use kubexm_types::{FindingKind, HostName};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "firewall",
        area: Area::Network,
        source: Source::Hosts,
        read: "TCP connections between hosts: kubelets, API servers, etcd; rules that drop packets",
        run: firewall,
    },
    Check {
        id: "network-program",
        area: Area::Network,
        source: Source::Nodes,
        read: "kube-proxy and other programs of the network, and NetworkReady of the runtime",
        run: program,
    },
    Check {
        id: "cni-leftovers",
        area: Area::Network,
        source: Source::Nodes,
        read: "addresses of bridges, flannel's subnet, /etc/cni/net.d, leases in /var/lib/cni/networks",
        run: cni::leftovers,
    },
    Check {
        id: "pod-network",
        area: Area::Network,
        source: Source::Nodes,
        read: "a TCP connection from each node to each CoreDNS pod",
        run: pods,
    },
    Check {
        id: "service-network",
        area: Area::Network,
        source: Source::Nodes,
        read: "a TCP connection from each node to the address of the DNS service",
        run: services,
    },
];

/// The label of a connection: what it is for, and the host or pod at its end.
pub(super) struct Label<'a> {
    pub(super) purpose: &'a str,
    pub(super) target: &'a str,
    pub(super) port: u16,
}

impl<'a> Label<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.split('/');
        let (purpose, target, port) = (words.next()?, words.next()?, words.next()?);
        Some(Self {
            purpose,
            target,
            port: port.parse().ok()?,
        })
    }

    pub(super) fn text(&self) -> String {
        format!("{}/{}/{}", self.purpose, self.target, self.port)
    }
}

fn firewall(seen: &Seen) -> Outcome {
    if seen.ways.is_empty() {
        return Outcome::Unknown("no host answers, or none has bash".to_owned());
    }
    let mut all = shared::find(seen, FindingKind::Firewall);
    for (from, ways) in &seen.ways {
        for (label, way) in ways {
            let Some(label) = Label::parse(label) else {
                continue;
            };
            if !way.is_lost() || !matches!(label.purpose, "kubelet" | "server" | "etcd") {
                continue;
            }
            let Some(to) = seen
                .cluster
                .hosts
                .iter()
                .find(|host| host.name.as_str() == label.target)
            else {
                continue;
            };
            // Without its facts, the host itself may be down.
            let Some(facts) = seen.facts.get(&to.name) else {
                continue;
            };
            if !facts.listening.contains(&label.port) {
                continue;
            }
            let port = label.port.to_string();
            let line = format!("from {from} to {}:{port}: no answer", to.name);
            let what = format!("packets to port {port} of {} get lost", to.name);
            if let Some(known) = all.iter_mut().find(|found| found.what == what) {
                known.add_evidence([line]);
                if !known.hosts.contains(from) {
                    known.hosts.push(from.clone());
                }
                continue;
            }
            let rules = rules::dropping(seen, &to.name, Packets::Tcp(label.port));
            let found = Found::new(what)
                .on(&to.name)
                .on(from)
                .evidence([
                    line,
                    format!("a program on {} listens on this port", to.name),
                ])
                .cause("a firewall on the host or between the hosts drops the packets")
                .fix(format!(
                    "permit TCP port {port} between the hosts of the cluster"
                ));
            let found = if rules.name_them() {
                found
            } else {
                found.likely()
            };
            all.push(rules.explain(seen, &to.name, found));
        }
    }
    Outcome::Known(all)
}

fn program(seen: &Seen) -> Outcome {
    let mut all: Vec<Found> = seen
        .problems("network-program")
        .map(|problem| {
            let found = Found::of(problem).cause("services and pods of other nodes are not reachable from this node, or names are not resolved");
            let unit = problem.program();
            match &problem.host {
                Some(host) if unit.ends_with(".service") => {
                    found.run(seen.line.on(host, &format!("systemctl start {}", quoted(unit))))
                }
                Some(host) => found.run(seen.line.logs(unit, host)),
                None => found,
            }
        })
        .collect();
    for (host, answers) in seen.runtimes() {
        for row in answers.all("condition") {
            let parts: Vec<&str> = row.split('\t').collect();
            if let ["NetworkReady", "false", rest @ ..] = parts.as_slice() {
                all.push(cni::without_network(seen, host, rest.join(": ")));
            }
        }
    }
    Outcome::Known(all)
}

/// The connections from nodes to CoreDNS pods on other nodes: pairs of nodes, and how they ended.
fn between_nodes(seen: &Seen) -> Vec<(HostName, String, Way)> {
    let mut all = Vec::new();
    for (from, ways) in &seen.ways {
        for (label, way) in ways {
            if let Some(label) = Label::parse(label)
                && label.purpose == "pod"
            {
                all.push((from.clone(), label.target.to_owned(), *way));
            }
        }
    }
    all
}

/// Returns the UDP port of the packets of a device.
pub(super) fn port_of(overlay: &str) -> u16 {
    let mut all = PluginKind::all_properties().flat_map(|plugin| plugin.overlays);
    let own = all.find(|(device, _)| *device == overlay);
    own.map_or(ports::VXLAN, |(_, port)| *port)
}

fn pods(seen: &Seen) -> Outcome {
    let ways = between_nodes(seen);
    if ways.is_empty() {
        return Outcome::Unknown(
            "no CoreDNS pod is known, because no API server is ready".to_owned(),
        );
    }
    let lost: Vec<_> = ways
        .iter()
        .filter(|(from, to, way)| from.as_str() != to && way.is_lost())
        .collect();
    if lost.is_empty() {
        return Outcome::Known(Vec::new());
    }
    // A host with which all connections fail is the cause.
    let ends = |name: &HostName| {
        lost.iter()
            .filter(|(from, to, _)| from == name || to == name.as_str())
            .count()
    };
    let involved: BTreeSet<&HostName> = seen
        .cluster
        .hosts
        .iter()
        .map(|host| &host.name)
        .filter(|name| ends(name) > 0)
        .collect();
    let culprits: Vec<&HostName> = involved
        .iter()
        .copied()
        .filter(|name| ends(name) == lost.len())
        .collect();
    let overlay = seen.hosts().find_map(|(_, answers)| answers.one("overlay"));
    let port = overlay.map_or(ports::VXLAN, port_of);
    let carries = |name: &&HostName| {
        seen.hosts
            .get(*name)
            .is_some_and(|answers| answers.all("udp").contains(&format!("{port:04X}")))
    };
    let mut found = Found::new("pods of other nodes are not reachable")
        .evidence(
            lost.iter()
                .map(|(from, to, _)| format!("from {from} to a CoreDNS pod on {to}: no answer")),
        )
        .likely();
    found.hosts = if culprits.is_empty() {
        involved.iter().map(|name| (*name).clone()).collect()
    } else {
        culprits.iter().map(|name| (*name).clone()).collect()
    };
    let silent: Vec<&HostName> = match overlay {
        Some(_) => involved
            .iter()
            .copied()
            .filter(|name| !carries(name))
            .collect(),
        None => Vec::new(),
    };
    let mut has_rule = false;
    for host in &involved {
        let rules = rules::dropping(seen, host, Packets::Udp(port));
        has_rule |= rules.name_them();
        found = rules.explain(seen, host, found);
    }
    found = match (overlay, silent.first(), has_rule) {
        (Some(_), _, true) => {
            found.certainty = Certainty::Certain;
            found.cause(format!("a rule drops packets of the pod network, which are UDP packets to port {port} between hosts"))
                .fix(format!("permit UDP port {port} between the hosts of the cluster"))
        }
        (Some(link), Some(host), _) => found
            .cause(format!("the device {link} of {host} does not exist or does not listen: the network plugin does not run there"))
            .fix("restart the pod of the network plugin on this node"),
        (Some(_), None, _) => found
            .cause(format!("something between the hosts drops the UDP packets to port {port} of the pod network"))
            .fix(format!("permit UDP port {port} between the hosts of the cluster")),
        (None, ..) => found
            .cause("a route to the subnet of the pods is missing, or the network drops packets with addresses of pods")
            .fix("compare the routes of the hosts with the subnets of the nodes; permit these addresses between the hosts"),
    };
    Outcome::Known(vec![found])
}

fn services(seen: &Seen) -> Outcome {
    let of = |from: &HostName, purpose: &str| {
        let ways = seen.ways.get(from)?;
        let mut all = ways
            .iter()
            .filter_map(|(label, way)| Some((Label::parse(label)?, *way)));
        all.find(|(label, way)| label.purpose == purpose && (purpose != "pod" || *way == Way::Ok))
            .map(|(_, way)| way)
    };
    let mut all = Vec::new();
    let mut is_known = false;
    for from in seen.ways.keys() {
        let (Some(service), Some(Way::Ok)) = (of(from, "service"), of(from, "pod")) else {
            continue;
        };
        is_known = true;
        if service == Way::Ok {
            continue;
        }
        let offload = seen
            .hosts
            .get(from)
            .and_then(|answers| answers.one("offload"));
        let found = Found::new("addresses of services do not work on this node")
            .on(from)
            .evidence([
                "the DNS pods answer at their own addresses, and not at the address of the service",
            ]);
        all.push(match offload.and_then(|line| line.strip_suffix(" on")) {
            Some(link) if service == Way::Timeout => found
                .evidence([format!("{link}: tx-checksum-ip-generic is on")])
                .cause("some kernels and network cards compute wrong checksums of encapsulated packets: a connection by a service takes 63 s")
                .fix("turn the offload off; if that helps, do it at each boot by a unit or a rule of udev")
                .possible()
                .run(seen.line.on(from, &format!("ethtool -K {} tx-checksum-ip-generic off", quoted(link))))
                .run(seen.line.logs("kube-proxy", from)),
            _ => found
                .cause("the rules of kube-proxy are missing: it does not run, or another program removed them")
                .fix("restart kube-proxy on this node")
                .likely()
                .run(seen.line.logs("kube-proxy", from)),
        });
    }
    if is_known {
        Outcome::Known(all)
    } else {
        Outcome::Unknown("no CoreDNS pod answers at its own address".to_owned())
    }
}
