//! Which rules of firewalls drop packets that get lost.

use std::net::IpAddr;

use super::check::Found;
use super::seen::Seen;
use kubexm_config::cluster::{IpFamily, OfFamily};
use kubexm_preflight::host_checks::{Fit, Packets};
use kubexm_types::HostName;

/// The rules of a host that may drop packets.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    packets: Packets,
    /// The program that changes those of iptables.
    program: &'static str,
    naming: Vec<&'a str>,
    others: Vec<&'a str>,
}

/// Returns the rules of a host that drop such packets, or may do so.
pub(super) fn dropping<'a>(seen: &'a Seen, host: &HostName, packets: Packets) -> Rules<'a> {
    let answers = seen.hosts.get(host);
    let mut hosts = seen.cluster.hosts.iter();
    let spec = hosts.find(|spec| spec.name == *host);
    // Programs connect to the first address of a host.
    let (key, program) = match spec.map(|spec| spec.internal_address().family()) {
        Some(IpFamily::V6) => ("rule6", "ip6tables"),
        Some(IpFamily::V4) | None => ("rule", "iptables"),
    };
    let all = answers.map_or(&[][..], |answers| answers.all(key));
    let with = |fit: Fit| {
        let rules = all
            .iter()
            .filter(|rule| packets.fit(rule, |address| is_of_cluster(seen, address)) == fit);
        rules.map(String::as_str).collect()
    };
    Rules {
        packets,
        program,
        naming: with(Fit::Names),
        others: with(Fit::Perhaps),
    }
}

impl Rules<'_> {
    /// Returns whether a rule names the packets, so that it is the cause.
    pub(super) fn name_them(&self) -> bool {
        !self.naming.is_empty()
    }

    /// Adds the rules as evidence, and commands that delete those that name only the packets. Others may be there for a good
    /// reason, as one that bans an address or closes further ports.
    pub(super) fn explain(&self, seen: &Seen, host: &HostName, mut found: Found) -> Found {
        for rule in self.naming.iter().chain(&self.others) {
            found.add_evidence([format!("{host}: {rule}")]);
        }
        for rule in self
            .naming
            .iter()
            .filter(|rule| self.packets.are_all_of(rule))
        {
            if let Some(rest) = rule.strip_prefix("-A ").filter(|rest| is_harmless(rest)) {
                found = found.run(seen.line.on(host, &format!("{} -D {rest}", self.program)));
            }
        }
        found
    }
}

/// Returns whether a shell of the user reads only words in this text, which a host provided.
fn is_harmless(rule: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" ._:/,-".contains(&byte);
    rule.bytes().all(is_plain)
}

fn is_of_cluster(seen: &Seen, address: IpAddr) -> bool {
    let mut facts = seen.facts.values();
    seen.cluster.host_at(address).is_some() || facts.any(|facts| facts.addresses.contains(&address))
}
