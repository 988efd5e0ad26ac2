//! `spec.dns`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::cluster::{CacheInterface, Dns, HostSpec, Network, NodeLocal, Zone};
use crate::reader::{Fields, accept};
use kubexm_types::{HostName, NameServer};

/// CoreDNS forwards to no more servers than that
/// (<https://coredns.io/plugins/forward/>).
const MOST_SERVERS: usize = 15;

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
    if let (Some(node), true) = (fields.get(name), servers.len() > MOST_SERVERS) {
        let message = format!("names more than {MOST_SERVERS} servers, which CoreDNS refuses");
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
            reader.problem(item, &fields.path("servers"), "names no server", None);
        }
        if let Some(name) = name {
            if dns_domain == Some(name.as_str()) {
                let hint = "CoreDNS itself answers for it: take the zone away";
                let message = "is the cluster's own domain";
                reader.problem(item, &fields.path("name"), message, Some(hint));
            }
            if !seen.insert(name.clone()) {
                let message = format!("{name} is there twice");
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

/// The address must be free, and of the services' family: pods have no other.
fn check_address(fields: &Fields<'_>, address: IpAddr, network: &Network, hosts: &[HostSpec]) {
    let tell = |message: String, hint: &str| {
        let node = fields.get("address").unwrap_or(fields.node());
        let path = fields.path("address");
        fields.reader().problem(node, &path, message, Some(hint));
    };
    if address.is_ipv4() != network.dns_address.is_ipv4() {
        let message = format!("{address} is of another family than the cluster's services");
        tell(message, "give a free address, as in fd00::10");
        return;
    }
    for cidr in [network.pod_cidr, network.service_cidr] {
        if cidr.contains(&address) {
            let message = format!("{address} is in {cidr}, which the cluster gives out");
            tell(message, "take a link-local address, as in 169.254.20.10");
        }
    }
    let is_it = |host: &&HostSpec| host.internal_address == address || address.is_loopback();
    if let Some(host) = hosts.iter().find(is_it) {
        let message = format!("{address} is host {}'s own", host.name);
        tell(message, "take a link-local address, as in 169.254.20.10");
    }
}
