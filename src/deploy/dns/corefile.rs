//! What CoreDNS and the caches are configured with.

use super::node_local;
use crate::Inputs;
use kubexm_config::cluster::{NodeLocal, Zone};
use kubexm_render::{RenderError, dns};
use kubexm_types::NameServer;

/// Where CoreDNS' pods find the servers of their node.
const NODES_SERVERS: &str = "/etc/resolv.conf";

/// Whether the user, or a host, wants another Corefile than kubeadm's.
pub(super) fn is_asked_for(inputs: &Inputs<'_>) -> bool {
    let dns = &inputs.cluster.dns;
    !dns.upstreams.is_empty() || !dns.zones.is_empty() || !nodes_have_servers(inputs)
}

/// CoreDNS' Corefile.
pub(super) fn of_coredns(inputs: &Inputs<'_>) -> Result<String, RenderError> {
    let template = dns::Corefile {
        domain: inputs.cluster.kubernetes.dns_domain.clone(),
        forward: forward(inputs),
        zones: zones(inputs),
    };
    kubexm_render::text("Corefile", &template)
}

/// Who is asked for names outside. CoreDNS ends with "no nameservers found" where its node's
/// resolv.conf is empty, as it is on many hosts without internet: there is nobody to ask then.
fn forward(inputs: &Inputs<'_>) -> Vec<String> {
    let upstreams = &inputs.cluster.dns.upstreams;
    match upstreams.is_empty() {
        false => shown(upstreams),
        true if nodes_have_servers(inputs) => vec![NODES_SERVERS.to_owned()],
        true => Vec::new(),
    }
}

fn zones(inputs: &Inputs<'_>) -> Vec<dns::Zone> {
    let zones = inputs.cluster.dns.zones.iter();
    let zone = |zone: &Zone| dns::Zone {
        name: zone.name.to_string(),
        servers: shown(&zone.servers),
    };
    zones.map(zone).collect()
}

fn shown(servers: &[NameServer]) -> Vec<String> {
    servers.iter().map(ToString::to_string).collect()
}

fn nodes_have_servers(inputs: &Inputs<'_>) -> bool {
    let nodes = inputs.cluster.nodes();
    let mut machines = nodes.iter().map(|host| inputs.machine(&host.name));
    machines.all(|machine| machine.has_name_server)
}

/// The caches' Corefile.
pub(super) fn of_cache(inputs: &Inputs<'_>, cache: &NodeLocal) -> Result<String, RenderError> {
    let coredns = inputs.cluster.network.dns_address.to_string();
    let mut forward = forward(inputs);
    if forward.is_empty() {
        // Nobody knows names outside; CoreDNS is who says so.
        forward.push(coredns.clone());
    }
    let template = dns::NodeLocalCorefile {
        domain: inputs.cluster.kubernetes.dns_domain.clone(),
        address: cache.address.to_string(),
        health: node_local::health(cache.address).to_string(),
        coredns,
        forward,
        zones: zones(inputs),
    };
    kubexm_render::text("Corefile", &template)
}
