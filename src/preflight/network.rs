//! Checks addresses, routes, name servers and firewalls.

use crate::checker::Checker;
use crate::firewall;

impl Checker<'_> {
    pub(super) fn network(&mut self) {
        if let Some(host) = self.cluster.host(self.name)
            && !self.facts.addresses.contains(&host.internal_address)
        {
            self.error(
                format!(
                    "none of its interfaces has the address {}",
                    host.internal_address
                ),
                "correct internalAddress of the host in the cluster file",
            );
        }
        if !self.facts.default_route {
            self.warning(
                "has no default route",
                "add one, because service addresses need it: ip route add default via GATEWAY",
            );
        }
        if self.facts.nameserver.is_none() && self.cluster.system.resolvers.is_none() {
            self.warning(
                "/etc/resolv.conf has no name server",
                "add a nameserver line, or set system.resolvers, if pods resolve names outside the cluster",
            );
        }
        let findings = firewall::findings(self.cluster, self.name, self.facts);
        self.findings.extend(findings);
    }
}
