//! The Corefiles of CoreDNS and of the caches on the nodes.

use super::node_local;
use crate::Inputs;
use kubexm_config::cluster::{HostEntry, NodeLocal, Zone};
use kubexm_config::ports;
use kubexm_render::{RenderError, dns};
use kubexm_types::NameServer;

/// The file with the name servers of a node, in CoreDNS' pods.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Returns whether the cluster needs another Corefile than that of kubeadm.
pub(super) fn differs_from_kubeadm(inputs: &Inputs<'_>) -> bool {
    let dns = &inputs.cluster.dns;
    !dns.upstreams.is_empty()
        || !dns.zones.is_empty()
        || !dns.hosts.is_empty()
        || !dns.extra_blocks.is_empty()
        || !nodes_have_servers(inputs)
}

/// Returns the Corefile of CoreDNS.
pub(super) fn for_coredns(inputs: &Inputs<'_>) -> Result<String, RenderError> {
    let template = dns::Corefile {
        domain: inputs.cluster.kubernetes.dns_domain.clone(),
        forward: forward(inputs),
        zones: zones(inputs),
        hosts: hosts(inputs),
        blocks: inputs.cluster.dns.extra_blocks.clone(),
    };
    kubexm_render::text("Corefile", &template)
}

/// Returns names with fixed addresses, as lines of `/etc/hosts`.
fn hosts(inputs: &Inputs<'_>) -> Vec<String> {
    let entries = inputs.cluster.dns.hosts.iter();
    let line = |entry: &HostEntry| {
        let names: Vec<String> = entry.names.iter().map(ToString::to_string).collect();
        format!("{} {}", entry.address, names.join(" "))
    };
    entries.map(line).collect()
}

/// Returns the name servers for names outside of the cluster.
///
/// The list is empty if the nodes have no name server, as on many hosts without internet. CoreDNS would fail
/// with "no nameservers found" if it read an empty `resolv.conf`.
fn forward(inputs: &Inputs<'_>) -> Vec<String> {
    let upstreams = &inputs.cluster.dns.upstreams;
    match upstreams.is_empty() {
        false => to_strings(upstreams),
        true if nodes_have_servers(inputs) => vec![RESOLV_CONF.to_owned()],
        true => Vec::new(),
    }
}

fn zones(inputs: &Inputs<'_>) -> Vec<dns::Zone> {
    let zones = inputs.cluster.dns.zones.iter();
    let zone = |zone: &Zone| dns::Zone {
        names: zone.names.iter().map(ToString::to_string).collect(),
        cache_seconds: zone.cache_seconds,
        servers: to_strings(&zone.servers),
    };
    zones.map(zone).collect()
}

fn to_strings(servers: &[NameServer]) -> Vec<String> {
    servers.iter().map(ToString::to_string).collect()
}

fn nodes_have_servers(inputs: &Inputs<'_>) -> bool {
    if inputs.cluster.system.resolvers.is_some() {
        return true;
    }
    let nodes = inputs.cluster.nodes();
    let mut facts = nodes.iter().map(|host| inputs.host_facts(&host.name));
    facts.all(|facts| facts.has_name_server)
}

/// Returns the zones of additional server blocks, which only CoreDNS has.
fn own_zones(inputs: &Inputs<'_>) -> Vec<String> {
    let domain = &inputs.cluster.kubernetes.dns_domain;
    let mut zones: Vec<String> = Vec::new();
    for zone in inputs.cluster.dns.zones_of_blocks() {
        if zone != domain && !zones.iter().any(|known| known == zone) {
            zones.push(zone.to_owned());
        }
    }
    zones
}

/// Returns the Corefile of the caches.
pub(super) fn for_cache(inputs: &Inputs<'_>, cache: &NodeLocal) -> Result<String, RenderError> {
    let coredns = inputs.cluster.network.dns_address.to_string();
    let mut forward = forward(inputs);
    if forward.is_empty() {
        // CoreDNS answers that names outside of the cluster do not exist.
        forward.push(coredns.clone());
    }
    let template = dns::NodeLocalCorefile {
        domain: inputs.cluster.kubernetes.dns_domain.clone(),
        address: cache.address.to_string(),
        health: node_local::health(cache.address).to_string(),
        metrics: if cache.address.is_ipv4() {
            format!("{{$NODE_ADDRESS}}:{}", ports::DNS_CACHE_METRICS)
        } else {
            format!("[{{$NODE_ADDRESS}}]:{}", ports::DNS_CACHE_METRICS)
        },
        own_zones: own_zones(inputs),
        coredns,
        forward,
        zones: zones(inputs),
        hosts: hosts(inputs),
    };
    kubexm_render::text("Corefile", &template)
}
