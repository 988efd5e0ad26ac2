//! Rules of firewalls that drop packets, as `preflight/checks.sh` prints them: `-A CHAIN …` and `:CHAIN DROP` of iptables, and
//! `TABLE: …` of nftables.

use std::net::IpAddr;

/// Packets that a program sends to hosts of the cluster.
#[derive(Debug, Clone, Copy)]
pub enum Packets {
    /// To a port of the host.
    Tcp(u16),
    /// To a port of the host, with packets of pods in them.
    Udp(u16),
    /// Announcements of keepalived.
    Vrrp,
}

/// What a rule has to do with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It names them, and no further condition.
    Names,
    /// It may be about them: it names no port, or has other conditions.
    Perhaps,
    /// It is about other packets.
    Never,
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
/// Words after which the interface of arrival is.
const BEFORE_INTERFACE: &[&str] = &["-i", "iif", "iifname"];
/// Words after which the states of connections are.
const BEFORE_STATE: &[&str] = &["--ctstate", "--state", "state"];
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
    pub fn are_all_of(self, rule: &str) -> bool {
        match self.port() {
            Some(port) => named_ports(&conditions(rule)) == [(port, port)],
            None => true,
        }
    }

    /// Returns what a rule that drops packets has to do with these.
    pub fn fit(self, rule: &str, is_of_cluster: impl Fn(IpAddr) -> bool) -> Fit {
        // Only the packets of pods are forwarded.
        if is_about_forwarding(rule) {
            return match self {
                Self::Udp(_) => Fit::Perhaps,
                Self::Tcp(_) | Self::Vrrp => Fit::Never,
            };
        }
        let words = conditions(rule);
        if !self.can_be_of(&words) || bans_others(&words, is_of_cluster) {
            return Fit::Never;
        }
        let names_port = self.port().map(|port| names_port(&words, port));
        let protocols = protocols(&words);
        let is_ours = protocols.iter().any(|name| self.protocols().contains(name));
        if is_ours && names_port != Some(None) && words.iter().all(|word| is_known(word)) {
            Fit::Names
        } else {
            Fit::Perhaps
        }
    }

    /// Returns whether a rule with these words is about such packets, besides its other conditions.
    fn can_be_of(self, words: &[&str]) -> bool {
        let protocols = protocols(words);
        let is_ours = protocols.iter().any(|name| self.protocols().contains(name));
        let names_port = self.port().map(|port| names_port(words, port));
        (protocols.is_empty() || is_ours) && names_port != Some(Some(false))
    }

    /// Returns whether a rule that accepts packets accepts new ones of these from other machines.
    pub(super) fn are_accepted_by(self, rule: &str) -> bool {
        let words = conditions(rule);
        let is_local = behind(&words, BEFORE_INTERFACE).any(|at| {
            words
                .get(at)
                .is_some_and(|name| name.trim_matches('"') == "lo")
        });
        let states: Vec<&str> = behind(&words, BEFORE_STATE)
            .flat_map(|at| words[at..].iter().copied())
            .map(str::trim)
            .collect();
        let is_new = |state: &str| state.eq_ignore_ascii_case("new");
        let has_new = states.is_empty() || states.iter().any(|state| is_new(state));
        !is_about_forwarding(rule) && !is_local && has_new && self.can_be_of(&words)
    }
}

/// Returns whether a rule, or the policy of a chain, is about packets that the host forwards.
pub(super) fn is_about_forwarding(rule: &str) -> bool {
    rule.starts_with("-A FORWARD ") || rule.starts_with(":FORWARD ")
}

/// Returns whether a rule, or the policy of a chain, drops every packet that came to it.
pub(super) fn drops_all(rule: &str) -> bool {
    let words = conditions(rule);
    rule.starts_with(':')
        || words
            .iter()
            .all(|word| PLAIN.contains(word) || word.parse::<u64>().is_ok())
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
        .take_while(|word| !matches!(*word, "-j" | "drop" | "reject" | "accept"))
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
fn bans_others(words: &[&str], is_of_cluster: impl Fn(IpAddr) -> bool) -> bool {
    let Some(at) = behind(words, BEFORE_SOURCE).next() else {
        return false;
    };
    let banned: Vec<(IpAddr, bool)> = words[at..].iter().map_while(|word| address(word)).collect();
    let is_other = |(address, is_machine): &(IpAddr, bool)| *is_machine && !is_of_cluster(*address);
    !banned.is_empty() && banned.iter().all(is_other)
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
