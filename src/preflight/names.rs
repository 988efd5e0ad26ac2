//! Checks `/etc/hosts`.

use std::net::IpAddr;

use crate::checker::Checker;
use kubexm_types::FindingKind;

/// The hint for a wrong line in a file that kubexm does not manage.
const CORRECT: &str =
    "correct the line in /etc/hosts: system.manageHostsFile is false, so kubexm does not change it";

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
                let hint = if cluster.system.manage_hosts_file {
                    "remove the line from /etc/hosts: kubexm adds its own lines there"
                } else {
                    CORRECT
                };
                self.error(
                    FindingKind::HostNames,
                    format!(
                        "/etc/hosts has the line '{address} {entry}', but the cluster file gives {name} the address {}",
                        expected.join(" or ")
                    ),
                    hint,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::{Offer, check};
    use kubexm_host::facts::Facts;

    #[test]
    fn hint_about_a_wrong_line_knows_which_program_writes_the_file() {
        let hint = |section: &str| {
            let cluster = kubexm_config::example::cluster("", &format!("system: {{{section}}}"));
            let facts = Facts {
                hosts_entries: vec![("10.0.0.99".parse().unwrap(), "node2".to_owned())],
                ..Facts::default()
            };
            let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
            let mut found = check(&cluster, &facts, &Offer::default()).into_iter();
            let wrong = found.find(|finding| finding.what.starts_with("/etc/hosts has"));
            wrong.unwrap().hint
        };
        assert!(hint("manageHostsFile: true").starts_with("remove the line"));
        assert!(hint("manageHostsFile: false").starts_with("correct the line"));
    }
}
