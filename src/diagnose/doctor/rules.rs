//! Rules of firewalls that drop packets, as `doctor/host.sh` prints them: `-A CHAIN …` and `:CHAIN DROP` of iptables, and
//! `TABLE: …` of nftables.

use std::net::IpAddr;

use super::check::Found;
use super::seen::Seen;
use kubexm_types::HostName;

/// Packets that get lost.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packets {
    /// To a port of the host.
    Tcp(u16),
    /// To a port of the host, with packets of pods in them.
    Udp(u16),
    /// Announcements of keepalived.
    Vrrp,
}

/// What a rule has to do with packets that get lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// It names them, and no further condition.
    Names,
    /// It may drop them: it names no port, or has other conditions.
    Perhaps,
    /// It is about other packets.
    Never,
}

/// The rules of a host that may drop packets.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    packets: Packets,
    naming: Vec<&'a str>,
    others: Vec<&'a str>,
}

/// Returns the rules of a host that drop such packets, or may do so.
pub(super) fn dropping<'a>(seen: &'a Seen, host: &HostName, packets: Packets) -> Rules<'a> {
    let answers = seen.hosts.get(host);
    let all = answers.map_or(&[][..], |answers| answers.all("rule"));
    let with = |fit: Fit| {
        let rules = all.iter().filter(|rule| packets.fit(seen, rule) == fit);
        rules.map(String::as_str).collect()
    };
    Rules {
        packets,
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
                found = found.run(seen.line.on(host, &format!("iptables -D {rest}")));
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

/// Names of protocols in rules.
const PROTOCOLS: &[&str] = &[
    "tcp",
    "udp",
    "udplite",
    "sctp",
    "dccp",
    "icmp",
    "icmpv6",
    "ipv6-icmp",
    "igmp",
    "esp",
    "ah",
    "gre",
    "vrrp",
];
/// Words after which the number of a protocol may be.
const BEFORE_PROTOCOL: &[&str] = &["-p", "protocol", "l4proto"];
/// Words after which the ports of the target are.
const BEFORE_PORTS: &[&str] = &["--dport", "--dports", "dport"];
/// Words after which the addresses of the sender are.
const BEFORE_SOURCE: &[&str] = &["-s", "saddr"];
/// Other words of rules that only name a protocol, ports and senders.
const PLAIN: &[&str] = &[
    "-m",
    "multiport",
    "meta",
    "ip",
    "ip6",
    "counter",
    "packets",
    "bytes",
];

impl Packets {
    fn protocols(self) -> [&'static str; 2] {
        match self {
            Self::Tcp(_) => ["tcp", "6"],
            Self::Udp(_) => ["udp", "17"],
            Self::Vrrp => ["vrrp", "112"],
        }
    }

    fn port(self) -> Option<u16> {
        match self {
            Self::Tcp(port) | Self::Udp(port) => Some(port),
            Self::Vrrp => None,
        }
    }

    /// Returns whether a rule that names the packets names no other port.
    fn are_all_of(self, rule: &str) -> bool {
        match self.port() {
            Some(port) => named_ports(&conditions(rule)) == [(port, port)],
            None => true,
        }
    }

    fn fit(self, seen: &Seen, rule: &str) -> Fit {
        let forwards = rule.starts_with("-A FORWARD ") || rule.starts_with(":FORWARD ");
        // Only the packets of pods are forwarded.
        if forwards {
            return match self {
                Self::Udp(_) => Fit::Perhaps,
                Self::Tcp(_) | Self::Vrrp => Fit::Never,
            };
        }
        let words = conditions(rule);
        let protocols = protocols(&words);
        let is_ours = protocols.iter().any(|name| self.protocols().contains(name));
        let names_port = self.port().map(|port| names_port(&words, port));
        if (!protocols.is_empty() && !is_ours)
            || names_port == Some(Some(false))
            || bans_others(seen, &words)
        {
            return Fit::Never;
        }
        if is_ours && names_port != Some(None) && words.iter().all(|word| is_known(word)) {
            Fit::Names
        } else {
            Fit::Perhaps
        }
    }
}

/// Returns the words of a rule between its chain or table and what it does with the packets.
fn conditions(rule: &str) -> Vec<&str> {
    let rest = match rule.strip_prefix("-A ") {
        Some(rest) => rest.split_once(' '),
        None => rule.split_once(": "),
    };
    let words = rest
        .map_or(rule, |(_, rest)| rest)
        .split([' ', ',', '{', '}']);
    words
        .filter(|word| !word.is_empty())
        .take_while(|word| !matches!(*word, "-j" | "drop" | "reject"))
        .collect()
}

/// Returns the positions behind these words, where the rule does not say that it is about anything else.
fn behind<'a>(words: &'a [&str], keys: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
    let is_key = |at: &usize| keys.contains(&words[*at]) && (*at == 0 || words[at - 1] != "!");
    (0..words.len()).filter(is_key).map(|at| at + 1)
}

/// Returns the protocols that a rule names.
fn protocols<'a>(words: &[&'a str]) -> Vec<&'a str> {
    if words.iter().any(|word| word.starts_with('!')) {
        return Vec::new();
    }
    let numbers = behind(words, BEFORE_PROTOCOL).filter_map(|at| words.get(at));
    let names = words.iter().filter(|word| PROTOCOLS.contains(word));
    numbers.chain(names).copied().collect()
}

/// Returns whether a rule is about this port; `None` if it names no ports, or others than those behind a word.
fn names_port(words: &[&str], port: u16) -> Option<bool> {
    let ranges = named_ports(words);
    let has_it = ranges
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&port));
    (!ranges.is_empty()).then_some(has_it)
}

/// Returns the ports that a rule names, as ranges.
fn named_ports(words: &[&str]) -> Vec<(u16, u16)> {
    let at = behind(words, BEFORE_PORTS).next().unwrap_or(words.len());
    words[at..].iter().map_while(|word| ports(word)).collect()
}

/// Reads a port or a range of ports.
fn ports(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once([':', '-']).unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Reads an address, and whether it is that of one machine.
fn address(word: &str) -> Option<(IpAddr, bool)> {
    let (address, length) = word.split_once('/').unwrap_or((word, ""));
    let address: IpAddr = address.parse().ok()?;
    let whole = if address.is_ipv6() { "128" } else { "32" };
    Some((address, length.is_empty() || length == whole))
}

/// Returns whether a rule is only about packets of machines that are not in the cluster.
fn bans_others(seen: &Seen, words: &[&str]) -> bool {
    let Some(at) = behind(words, BEFORE_SOURCE).next() else {
        return false;
    };
    let banned: Vec<(IpAddr, bool)> = words[at..].iter().map_while(|word| address(word)).collect();
    let is_other =
        |(address, is_machine): &(IpAddr, bool)| *is_machine && !is_of_cluster(seen, *address);
    !banned.is_empty() && banned.iter().all(is_other)
}

fn is_of_cluster(seen: &Seen, address: IpAddr) -> bool {
    let mut hosts = seen.cluster.hosts.iter();
    let mut facts = seen.facts.values();
    hosts.any(|host| host.internal_addresses.iter().any(|own| own == address))
        || facts.any(|facts| facts.addresses.contains(&address))
}

/// Returns whether a word of a rule narrows nothing besides protocol, ports and single senders.
fn is_known(word: &str) -> bool {
    let lists = [
        PROTOCOLS,
        BEFORE_PROTOCOL,
        BEFORE_PORTS,
        BEFORE_SOURCE,
        PLAIN,
    ];
    lists.iter().any(|list| list.contains(&word))
        || ports(word).is_some()
        || address(word).is_some_and(|(_, is_machine)| is_machine)
}
