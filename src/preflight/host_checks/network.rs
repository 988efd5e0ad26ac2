//! What the network of a host does to the one of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use kubexm_config::Cluster;
use kubexm_config::cluster::IpFamily;
use kubexm_types::{FindingKind, HostName};

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const CNI: HostCheck = HostCheck {
    kind: FindingKind::CniLeftovers,
    when: When::Always,
    read: "files in /etc/cni/net.d",
    find: cni,
};

pub(super) const FORWARD: HostCheck = HostCheck {
    kind: FindingKind::Firewall,
    when: When::Always,
    read: "chains of nftables that drop forwarded packets by default",
    find: forward,
};

pub(super) const ROUTES: HostCheck = HostCheck {
    kind: FindingKind::Routes,
    when: When::Always,
    read: "the route to the first service addresses",
    find: routes,
};

pub(super) const PROXIES: HostCheck = HostCheck {
    kind: FindingKind::Proxies,
    when: When::Always,
    read: "proxies in the environment that systemd gives to units",
    find: proxies,
};

const KUBELET: &str = "kubelet.service";

/// Returns the units of a host that ask the registry or the API server.
pub(super) fn units(cluster: &Cluster, host: &HostName) -> Vec<&'static str> {
    if !cluster.is_node(host) {
        return Vec::new();
    }
    let mut units = cluster.runtime.kind.properties().units();
    units.push(KUBELET);
    units
}

/// Returns the network configurations of other programs, in the order in which the runtime takes them: it uses the first file by
/// name. The name of the file of the network plugin begins with `prefix`. Multus is meant to be the first one: it calls the plugin
/// of the cluster.
fn foreign<'a>(files: &'a [String], prefix: &str) -> Vec<&'a str> {
    let files = files.iter().map(String::as_str);
    let mut files: Vec<&str> = files
        .filter(|file| !base(file).contains("multus") && !base(file).starts_with(prefix))
        .collect();
    files.sort_by_key(|file| base(file));
    files
}

/// Returns the network configurations that the runtime uses before the one of the network plugin, whose name begins with `prefix`.
pub fn before<'a>(files: &'a [String], prefix: &str) -> Vec<&'a str> {
    let mut files = foreign(files, prefix);
    files.retain(|file| base(file) < prefix);
    files
}

/// Returns the name of a file without its directory.
fn base(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn cni(asked: &Asked<'_>) -> Vec<Problem> {
    let plugin = asked.cluster.network.plugin.properties();
    let prefix = plugin.cni_file;
    let Some(prefix) = prefix.filter(|_| asked.cluster.is_node(asked.host)) else {
        return Vec::new();
    };
    let all = asked.answers.all("cni_file");
    // The pods of a plugin write its file after the kubelet has started. Until then, the runtime uses any other one.
    let is_late = !plugin.repositories.is_empty() && !asked.is_used();
    let files = if is_late {
        foreign(all, prefix)
    } else {
        before(all, prefix)
    };
    let Some(first) = files.first() else {
        return Vec::new();
    };
    vec![Problem {
        breaks: true,
        is_later: false,
        what: format!("the runtime would use {first} before the file of the network plugin"),
        evidence: files.iter().map(|file| (*file).to_owned()).collect(),
        cause: "pods would get the network of another program or of an earlier cluster".to_owned(),
        fix: "remove these files, or move them to another directory".to_owned(),
        commands: files.iter().map(|file| format!("rm {file}")).collect(),
    }]
}

fn forward(asked: &Asked<'_>) -> Vec<Problem> {
    let tables = asked.answers.all("forward").iter();
    // kubexm and the plugins add rules to those of iptables; a chain of another table drops what these accept.
    let tables = tables.filter(|table| !["ip filter", "ip6 filter"].contains(&table.as_str()));
    let pods = &asked.cluster.network.pod_cidr;
    let tables = tables.filter(|table| match table.split_whitespace().next() {
        Some("ip") => pods.has(IpFamily::V4),
        Some("ip6") => pods.has(IpFamily::V6),
        _ => true,
    });
    tables
        .filter(|_| asked.cluster.is_node(asked.host))
        .map(|table| Problem {
            breaks: false,
            is_later: false,
            what: format!("nftables drops forwarded packets in its table {table}"),
            evidence: vec![table.clone()],
            cause: "pods do not reach pods of other nodes, unless the table accepts them"
                .to_owned(),
            fix: format!("accept packets from and to {pods} in that chain"),
            commands: Vec::new(),
        })
        .collect()
}

fn routes(asked: &Asked<'_>) -> Vec<Problem> {
    // Pods of a plugin ask the API server from the network of the host. The bridge has none.
    let plugin = asked.cluster.network.plugin.properties();
    let breaks = !plugin.repositories.is_empty();
    let addresses = asked.answers.all("no_route").iter();
    addresses
        .map(|address| {
            let family = if address.contains(':') { " -6" } else { "" };
            Problem {
                breaks,
                is_later: false,
                what: format!("has no route to the service address {address}"),
                evidence: Vec::new(),
                cause: "the kernel refuses connections to services from this host before kube-proxy sees them".to_owned(),
                fix: format!("add a default route, also for the next boot: ip{family} route add default via GATEWAY"),
                commands: Vec::new(),
            }
        })
        .collect()
}

fn proxies(asked: &Asked<'_>) -> Vec<Problem> {
    if !asked.cluster.is_node(asked.host) {
        return Vec::new();
    }
    let general = asked.answers.all("no_proxy").iter();
    let general: Vec<&str> = general.map(String::as_str).collect();
    let names = asked.answers.all("proxy").iter();
    let names = names.map(String::as_str).collect();
    let mut units: BTreeMap<&str, (BTreeSet<&str>, Vec<&str>)> = BTreeMap::new();
    let pairs = |key| {
        asked
            .answers
            .all(key)
            .iter()
            .filter_map(|line| line.split_once('='))
    };
    for (unit, name) in pairs("unit_proxy") {
        units.entry(unit).or_default().0.insert(name);
    }
    for (unit, list) in pairs("unit_no_proxy") {
        units.entry(unit).or_default().1.push(list);
    }
    let of_units = units.into_iter().filter_map(|(unit, (names, own))| {
        // A unit without exceptions of its own has those of systemd.
        let exceptions = if own.is_empty() { &general } else { &own };
        let mut problem = proxy(asked, Some(unit), &names, exceptions)?;
        // systemd has not read the files of such a unit, which may end in another way.
        problem.breaks = asked
            .answers
            .all("unit_unknown")
            .iter()
            .all(|unknown| unknown != unit);
        Some(problem)
    });
    let of_all = proxy(asked, None, &names, &general);
    of_all.into_iter().chain(of_units).collect()
}

/// Returns the problem of proxies that one unit has, or every unit, with these values of `no_proxy`.
fn proxy(
    asked: &Asked<'_>,
    unit: Option<&str>,
    names: &BTreeSet<&str>,
    exceptions: &[&str],
) -> Option<Problem> {
    let exceptions: Vec<&str> = exceptions
        .iter()
        .flat_map(|list| list.split([',', ' ']))
        .filter(|entry| !entry.is_empty())
        .collect();
    // kubexm's unit of the kubelet unsets proxies. The runtime asks the registry, and starts programs that ask the API server at its
    // endpoint or at its service address.
    if unit == Some(KUBELET) {
        return None;
    }
    let cluster = asked.cluster;
    let mut needed = vec![
        cluster.registry.host_name.to_string(),
        cluster.control_plane_endpoint.host.clone(),
    ];
    let services = cluster.network.first_service_addresses();
    let asks = needed
        .iter()
        .cloned()
        .chain(services.map(|address| address.to_string()));
    let breaks = asks
        .into_iter()
        .any(|name| !is_any_excepted(&exceptions, &name));
    let networks = [cluster.network.service_cidr, cluster.network.pod_cidr];
    needed.extend(
        networks
            .iter()
            .flat_map(|of| of.iter())
            .map(|network| network.to_string()),
    );
    let nodes = cluster.nodes().into_iter();
    needed.extend(
        nodes
            .flat_map(|host| host.internal_addresses.iter())
            .map(|ip| ip.to_string()),
    );
    let mut seen = BTreeSet::new();
    needed.retain(|name| seen.insert(name.clone()) && !is_any_excepted(&exceptions, name));
    let missing = needed;
    let fix = unit.map_or_else(
        || "add them to NO_PROXY where systemd gets the proxy from, such as DefaultEnvironment in /etc/systemd/system.conf, and run systemctl daemon-reexec".to_owned(),
        |unit| format!("add them to NO_PROXY in the files of `systemctl cat {unit}` or in /etc/systemd/system/{unit}.d, and run systemctl daemon-reload && systemctl try-restart {unit}"),
    );
    (!names.is_empty() && !missing.is_empty()).then(|| Problem {
        breaks,
        is_later: false,
        what: format!(
            "systemd gives {} to {}, and no_proxy does not have {}",
            names.iter().copied().collect::<Vec<_>>().join(", "),
            unit.unwrap_or("every unit"),
            missing.join(" and ")
        ),
        evidence: Vec::new(),
        cause:
            "the runtime and the programs that it starts would ask the cluster through the proxy"
                .to_owned(),
        fix,
        commands: Vec::new(),
    })
}

fn is_any_excepted(entries: &[&str], name: &str) -> bool {
    entries.iter().any(|entry| is_excepted(entry, name))
}

/// Returns whether an entry of `no_proxy` excepts a name, an address or a network
/// (<https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config>).
fn is_excepted(entry: &str, name: &str) -> bool {
    if let (Ok(network), Ok(part)) = (entry.parse::<IpNet>(), name.parse::<IpNet>()) {
        return network.contains(&part);
    }
    if let (Ok(network), Ok(address)) = (entry.parse::<IpNet>(), name.parse::<IpAddr>()) {
        return network.contains(&address);
    }
    let domain = entry.trim_start_matches('*').trim_start_matches('.');
    let parent = name.strip_suffix(domain);
    entry == "*" || parent.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
