//! Checks addresses, routes, name servers and firewalls.

use crate::checker::Checker;
use crate::firewall;
use kubexm_config::cluster::IpFamily;
use kubexm_types::FindingKind;

impl Checker<'_> {
    pub(super) fn network(&mut self) {
        let own = self.cluster.host(self.name).into_iter();
        for address in own.flat_map(|host| host.internal_addresses.iter()) {
            if !self.facts.addresses.contains(&address) {
                self.error(
                    FindingKind::Address,
                    format!("none of its interfaces has the address {address}"),
                    "correct internalAddress of the host in the cluster file",
                );
            }
        }
        for family in self.cluster.network.families() {
            self.default_route(family);
        }
        if self.facts.nameserver.is_none() && self.cluster.system.resolvers.is_none() {
            self.warning(
                FindingKind::DnsServers,
                "/etc/resolv.conf has no name server",
                "add a nameserver line, or set system.resolvers, if pods resolve names outside the cluster",
            );
        }
        let findings = firewall::findings(self.cluster, self.name, self.facts);
        self.findings.extend(findings);
    }

    fn default_route(&mut self, family: IpFamily) {
        match family {
            IpFamily::V4 if !self.facts.default_route => self.warning(
                FindingKind::Routes,
                "has no default route",
                "add one, because service addresses need it: ip route add default via GATEWAY",
            ),
            IpFamily::V6 if !self.facts.default_route_ipv6 => self.warning(
                FindingKind::Routes,
                "has no default route for IPv6",
                "add one, because service addresses need it: ip -6 route add default via GATEWAY",
            ),
            _ => {}
        }
    }
}
