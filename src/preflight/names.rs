//! Checks `/etc/hosts`.

use std::net::IpAddr;

use crate::checker::Checker;

impl Checker<'_> {
    /// Finds lines of `/etc/hosts` that give a name of the cluster another address: the first line counts.
    pub(super) fn names(&mut self) {
        let cluster = self.cluster;
        let mut names: Vec<(&str, Vec<IpAddr>)> = Vec::new();
        if cluster.registry.external.is_none() {
            let hosts = cluster.roles.registry.iter();
            let addresses = hosts.filter_map(|name| cluster.host(name));
            let addresses = addresses
                .flat_map(|host| host.internal_addresses.iter())
                .collect();
            names.push((cluster.registry.host_name.as_str(), addresses));
        }
        let endpoint = &cluster.control_plane_endpoint;
        names.extend(
            endpoint
                .address
                .map(|address| (endpoint.host.as_str(), vec![address])),
        );
        for host in &cluster.hosts {
            // A host may have its own name on loopback, as Debian writes it.
            if host.name != *self.name {
                names.push((host.name.as_str(), host.internal_addresses.iter().collect()));
            }
        }
        for (name, expected) in names {
            let mut entries = self.facts.hosts_entries.iter();
            let other = entries.find(|(address, entry)| {
                entry.eq_ignore_ascii_case(name)
                    && !expected.contains(address)
                    && expected
                        .iter()
                        .any(|one| one.is_ipv4() == address.is_ipv4())
            });
            if let Some((address, entry)) = other {
                let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
                self.error(
                    format!(
                        "/etc/hosts has the line '{address} {entry}', but the cluster file gives {name} the address {}",
                        expected.join(" or ")
                    ),
                    "remove the line from /etc/hosts: kubexm adds its own lines there",
                );
            }
        }
    }
}
