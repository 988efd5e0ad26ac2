//! `spec.dns`.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cluster::{CacheInterface, Dns, HostEntry, HostSpec, Network, NodeLocal, Zone};
use crate::reader::{Fields, accept};
use kubexm_types::{HostName, NameServer};

/// Maximum number of servers to which CoreDNS forwards
/// (<https://coredns.io/plugins/forward/>).
const MAX_SERVERS: usize = 15;

/// How long CoreDNS keeps answers of a zone by default, in seconds.
const CACHE: u32 = 30;
/// The longest time for which CoreDNS may keep answers of a zone, in seconds: one day.
const MAX_CACHE: i64 = 86_400;

pub(super) fn read_dns(
    spec: &Fields<'_>,
    network: Option<&Network>,
    hosts: &[HostSpec],
    dns_domain: Option<&str>,
) -> Dns {
    let Some(fields) = spec.section("dns") else {
        return Dns::default();
    };
    let replicas = fields.number("replicas", 1, 100);
    let dns = Dns {
        replicas: replicas.and_then(|replicas| u32::try_from(replicas).ok()),
        upstreams: servers(&fields, "upstreams"),
        zones: read_zones(&fields, dns_domain),
        hosts: read_hosts(&fields),
        extra_blocks: read_blocks(&fields),
        node_local: read_node_local(&fields, network, hosts),
    };
    fields.finish();
    dns
}

fn servers(fields: &Fields<'_>, name: &'static str) -> Vec<NameServer> {
    let servers: Vec<NameServer> = fields.values(name);
    if servers.len() > MAX_SERVERS {
        let message = format!("CoreDNS accepts at most {MAX_SERVERS} servers");
        fields.problem(name, message, None);
    }
    servers
}

fn read_zones(dns: &Fields<'_>, dns_domain: Option<&str>) -> Vec<Zone> {
    let mut seen = BTreeSet::new();
    dns.sections("zones", |fields| {
        let (reader, item) = (fields.reader(), fields.node());
        let names = read_zone_names(fields);
        let cache = fields.number("cacheSeconds", 0, MAX_CACHE);
        let cache_seconds = cache.and_then(|seconds| u32::try_from(seconds).ok());
        let servers = servers(fields, "servers");
        if fields.required("servers").is_some()
            && servers.is_empty()
            && !reader.has_problem_at(&fields.path("servers"))
        {
            reader.problem(
                item,
                &fields.path("servers"),
                "is empty",
                Some("name at least one server"),
            );
        }
        for name in &names {
            if dns_domain == Some(name.as_str()) {
                let hint = "remove the zone: CoreDNS answers for this domain itself";
                let message = "is the domain of the cluster";
                reader.problem(item, &fields.path("name"), message, Some(hint));
            }
            if !seen.insert(name.clone()) {
                let message = format!("the zone '{name}' is defined twice");
                reader.problem(item, &fields.path("name"), message, None);
            }
        }
        (!names.is_empty()).then(|| Zone {
            names,
            servers,
            cache_seconds: cache_seconds.unwrap_or(CACHE),
        })
    })
}

/// Reads `name` and `names` of a zone.
fn read_zone_names(fields: &Fields<'_>) -> Vec<HostName> {
    let mut names: Vec<HostName> = fields.value("name").into_iter().collect();
    names.extend(fields.values::<HostName>("names"));
    let is_given = |name| fields.get(name).is_some();
    let (one, list) = (is_given("name"), is_given("names"));
    let reader = fields.reader();
    let has_problem = ["name", "names"].map(|name| reader.has_problem_at(&fields.path(name)));
    if (names.is_empty() && !has_problem.contains(&true)) || (one && list) {
        let message = if one && list {
            "contains both name and names"
        } else {
            "contains neither name nor names"
        };
        let hint = "write names, as in [corp.example, 10.in-addr.arpa]";
        fields.problem_here(message, Some(hint));
    }
    names
}

/// Reads names with fixed addresses.
fn read_hosts(dns: &Fields<'_>) -> Vec<HostEntry> {
    dns.sections("hosts", |fields| {
        let reader = fields.reader();
        let address = fields
            .required("address")
            .and_then(|_| fields.value::<IpAddr>("address"));
        let names: Vec<HostName> = fields.values("names");
        let place = fields.path("names");
        if fields.required("names").is_some() && names.is_empty() && !reader.has_problem_at(&place)
        {
            let hint = "name at least one host";
            reader.problem(fields.node(), &place, "is empty", Some(hint));
        }
        let address = address?;
        Some(HostEntry { address, names })
    })
}

/// Reads server blocks for the Corefile. CoreDNS checks them when it starts.
fn read_blocks(dns: &Fields<'_>) -> Vec<String> {
    let reader = dns.reader();
    let Some(node) = dns.get("extraBlocks") else {
        return Vec::new();
    };
    let mut blocks = Vec::new();
    for (item, path) in reader.items(node, &dns.path("extraBlocks")) {
        let Some(text) = reader.text(item, &path) else {
            continue;
        };
        if !is_block(&text) {
            let message = "is not a server block of a Corefile";
            let hint = "end the first line with '{', indent with spaces, and write '}' in a line of its own";
            reader.problem(item, &path, message, Some(hint));
        }
        blocks.push(text.trim_end().to_owned());
    }
    blocks
}

/// Returns whether a text consists of complete blocks: CoreDNS reads `{` at the end of a line and `}` in a line of its
/// own.
fn is_block(text: &str) -> bool {
    let mut depth = 0;
    for line in text.lines().map(str::trim) {
        let is_comment = line.is_empty() || line.starts_with('#');
        match line {
            "{" => return false,
            "}" if depth == 0 => return false,
            "}" => depth -= 1,
            _ if line.chars().any(char::is_control) => return false,
            _ if line.ends_with('{') => depth += 1,
            _ if depth == 0 && !is_comment => return false,
            _ => {}
        }
    }
    depth == 0 && text.contains('{')
}

fn read_node_local(
    dns: &Fields<'_>,
    network: Option<&Network>,
    hosts: &[HostSpec],
) -> Option<NodeLocal> {
    let fields = dns.section("nodeLocal")?;
    let enabled = fields.flag("enabled", true);
    let given: Option<IpAddr> = fields.value("address");
    let interface = match fields.choice("interface", accept(&["dummy", "loopback"])) {
        Some("loopback") => CacheInterface::Loopback,
        _ => CacheInterface::Dummy,
    };
    let address = given.unwrap_or(IpAddr::from([169, 254, 20, 10]));
    if let (true, Some(network)) = (enabled, network) {
        check_address(&fields, address, network, hosts);
    }
    fields.finish();
    enabled.then_some(NodeLocal { address, interface })
}

/// Checks that the address is free and of the family of the services. Pods have no address of another family.
fn check_address(fields: &Fields<'_>, address: IpAddr, network: &Network, hosts: &[HostSpec]) {
    let refuse = |message: String| {
        let node = fields.get("address").unwrap_or(fields.node());
        let path = fields.path("address");
        let example = free_example(network, hosts);
        let hint = format!("use a free address, as in {example}");
        fields.reader().problem(node, &path, message, Some(&hint));
    };
    if address.is_ipv4() != network.dns_address.is_ipv4() {
        refuse(format!(
            "{address} has another address family than the services of the cluster"
        ));
        return;
    }
    for (name, net) in network.ranges() {
        if net.contains(&address) {
            refuse(format!("{address} is in {name} {net}"));
        }
    }
    if address.is_loopback() {
        refuse(format!("{address} is a loopback address"));
    }
    if let Some(host) = hosts.iter().find(|host| host.has_address(address)) {
        refuse(format!("{address} is the address of host {}", host.name));
    }
}

/// Returns an address that [`check_address`] accepts: the first of a private network that neither the cluster nor a
/// host uses.
fn free_example(network: &Network, hosts: &[HostSpec]) -> IpAddr {
    let candidates: [IpAddr; 4] = match network.dns_address {
        IpAddr::V4(_) => [
            Ipv4Addr::new(169, 254, 20, 10).into(),
            Ipv4Addr::new(192, 168, 255, 10).into(),
            Ipv4Addr::new(172, 31, 255, 10).into(),
            Ipv4Addr::new(10, 255, 255, 10).into(),
        ],
        IpAddr::V6(_) => [0xfd00, 0xfd40, 0xfd80, 0xfdc0]
            .map(|first| Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0x10).into()),
    };
    let is_free = |address: &IpAddr| {
        let mut networks = network.pod_cidr.iter().chain(network.service_cidr.iter());
        let is_of_host = hosts.iter().any(|host| host.has_address(*address));
        !networks.any(|net| net.contains(address)) && !is_of_host
    };
    candidates
        .into_iter()
        .find(is_free)
        .unwrap_or(candidates[0])
}
