//! `spec.dns`.

use std::net::IpAddr;

use kubexm_types::{HostName, NameServer};

/// `spec.dns`.
#[derive(Debug, Clone, Default)]
pub struct Dns {
    /// Number of replicas of CoreDNS; `None` for two.
    pub replicas: Option<u32>,
    /// Name servers for names outside the cluster; empty for those in the resolv.conf of the node.
    pub upstreams: Vec<NameServer>,
    /// Domains with other name servers.
    pub zones: Vec<Zone>,
    /// Names with fixed addresses.
    pub hosts: Vec<HostEntry>,
    /// Server blocks that are added to the Corefile of CoreDNS.
    pub extra_blocks: Vec<String>,
    /// A cache on each node, which answers the queries of its pods.
    pub node_local: Option<NodeLocal>,
}

impl Dns {
    /// Returns the zones of the additional server blocks that CoreDNS serves at the port of DNS, as in `example.org`.
    pub fn zones_of_blocks(&self) -> Vec<&str> {
        let blocks = self.extra_blocks.iter();
        blocks.flat_map(|block| zones_of_block(block)).collect()
    }
}

/// Returns the zones in the first lines of the blocks of a text, as in `one.example:53 dns://two.example {`.
fn zones_of_block(text: &str) -> Vec<&str> {
    let (mut depth, mut zones) = (0_usize, Vec::new());
    for line in text.lines().map(str::trim) {
        if let Some(labels) = line.strip_suffix('{') {
            if depth == 0 {
                let labels = labels
                    .split([' ', '\t', ','])
                    .filter(|label| !label.is_empty());
                zones.extend(labels.filter_map(zone_of_label));
            }
            depth += 1;
        } else if line == "}" {
            depth = depth.saturating_sub(1);
        }
    }
    zones
}

/// Returns the zone of a label, if CoreDNS serves it with plain DNS at port 53. The root and the zones that the cluster has by
/// itself are not returned.
fn zone_of_label(label: &str) -> Option<&str> {
    let label = label.strip_prefix("dns://").unwrap_or(label);
    let zone = match label.split_once(':') {
        Some((zone, "53")) => zone,
        Some(_) => return None,
        None => label,
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_zone = !zone.is_empty() && zone.chars().all(is_name);
    (is_zone && !matches!(zone, "." | "in-addr.arpa" | "ip6.arpa")).then_some(zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_blocks_are_those_of_their_first_lines() {
        let text = "# c\none.example:53, dns://two.example three.example:5353 tls://four.example {\n    hosts {\n        1.2.3.4 x\n    }\n}\n. {\n}\nfive.example {\n}\n";
        assert_eq!(
            zones_of_block(text),
            ["one.example", "two.example", "five.example"]
        );
    }
}

/// Domains with their subdomains, which other name servers answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The domains. Never empty.
    pub names: Vec<HostName>,
    /// Never empty.
    pub servers: Vec<NameServer>,
    /// How long CoreDNS keeps answers, in seconds; 0 if it keeps none.
    pub cache_seconds: u32,
}

/// Names of an address, which CoreDNS answers itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    pub address: IpAddr,
    /// Never empty.
    pub names: Vec<HostName>,
}

/// NodeLocal DNSCache
/// (<https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLocal {
    /// Address of the cache on every node. No other program or host uses it.
    pub address: IpAddr,
    pub interface: CacheInterface,
}

/// The interface that has the address of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheInterface {
    /// A dummy device, which the cache creates and removes.
    Dummy,
    /// The loopback device, for kernels without dummy devices. A systemd unit adds the address.
    Loopback,
}
