//! Checks addresses, routes, name servers and firewalls.

use crate::checker::Checker;
use crate::firewall;
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
}
