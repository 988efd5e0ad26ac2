//! `spec.dns`.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cluster::{CacheInterface, Dns, HostSpec, Network, NodeLocal, Zone};
use crate::reader::{Fields, accept};
use kubexm_types::{HostName, NameServer};

/// Maximum number of servers to which CoreDNS forwards
/// (<https://coredns.io/plugins/forward/>).
const MAX_SERVERS: usize = 15;

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
        node_local: read_node_local(&fields, network, hosts),
    };
    fields.finish();
    dns
}

fn servers(fields: &Fields<'_>, name: &'static str) -> Vec<NameServer> {
    let servers: Vec<NameServer> = fields.values(name);
    if let (Some(node), true) = (fields.get(name), servers.len() > MAX_SERVERS) {
        let message = format!("CoreDNS accepts at most {MAX_SERVERS} servers");
        fields
            .reader()
            .problem(node, &fields.path(name), message, None);
    }
    servers
}

fn read_zones(dns: &Fields<'_>, dns_domain: Option<&str>) -> Vec<Zone> {
    let reader = dns.reader();
    let Some(node) = dns.get("zones") else {
        return Vec::new();
    };
    let mut seen = BTreeSet::new();
    let mut zones = Vec::new();
    for (item, path) in reader.items(node, &dns.path("zones")) {
        let fields = reader.fields(item, &path);
        fields.required("name");
        let name: Option<HostName> = fields.value("name");
        let servers = servers(&fields, "servers");
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
        if let Some(name) = name {
            if dns_domain == Some(name.as_str()) {
                let hint = "remove the zone: CoreDNS answers for this domain itself";
                let message = "is the domain of the cluster";
                reader.problem(item, &fields.path("name"), message, Some(hint));
            }
            if !seen.insert(name.clone()) {
                let message = format!("the zone '{name}' is defined twice");
                reader.problem(item, &fields.path("name"), message, None);
            }
            zones.push(Zone { name, servers });
        }
        fields.finish();
    }
    zones
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
    for (name, cidr) in [
        ("podCIDR", network.pod_cidr),
        ("serviceCIDR", network.service_cidr),
    ] {
        if cidr.contains(&address) {
            refuse(format!("{address} is in {name} {cidr}"));
        }
    }
    if address.is_loopback() {
        refuse(format!("{address} is a loopback address"));
    }
    if let Some(host) = hosts.iter().find(|host| host.internal_address == address) {
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
        !network.pod_cidr.contains(address)
            && !network.service_cidr.contains(address)
            && hosts.iter().all(|host| host.internal_address != *address)
    };
    candidates
        .into_iter()
        .find(is_free)
        .unwrap_or(candidates[0])
}
