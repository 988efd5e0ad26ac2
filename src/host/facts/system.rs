//! Files of the operating system.

use std::net::IpAddr;

use super::Os;

/// The most entries of `/etc/hosts` that are facts.
const ENTRIES: usize = 500;

/// Parses os-release(5).
pub(super) fn os(text: &str) -> Os {
    let value = |name: &str| {
        let mut assigned = text.lines().filter_map(|line| line.split_once('='));
        let last = assigned.rfind(|(key, _)| key.trim_start() == name);
        last.map(|(_, value)| unquoted(value.trim()))
            .filter(|value| !value.is_empty())
    };
    let like = value("ID_LIKE").unwrap_or_default();
    Os {
        id: value("ID"),
        codename: value("VERSION_CODENAME"),
        version: value("VERSION_ID"),
        like: like.split_whitespace().map(str::to_owned).collect(),
        name: value("PRETTY_NAME"),
    }
}

/// Returns the value of an assignment of a shell. Between double quotes, a backslash is before a quote, `$`, `\`` or another one.
fn unquoted(value: &str) -> String {
    let between = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(literal) = between('\'') {
        return literal.to_owned();
    }
    let mut letters = between('"').unwrap_or(value).chars();
    let mut result = String::new();
    while let Some(letter) = letters.next() {
        result.extend(if letter == '\\' {
            letters.next()
        } else {
            Some(letter)
        });
    }
    result
}

/// Returns the devices and files of `/proc/swaps`.
pub(super) fn swap(text: &str) -> Vec<String> {
    let names = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// Returns the addresses and names of `/etc/hosts`, outside of the block that kubexm manages. Lines that the resolver ignores
/// are of no interest.
pub(super) fn hosts_entries(text: &str) -> Vec<(IpAddr, String)> {
    let mut is_own = false;
    let lines = text.lines().filter(|line| {
        let was_own = is_own;
        is_own = *line == "# kubexm begin" || (is_own && *line != "# kubexm end");
        !was_own && !is_own
    });
    let entries = lines.flat_map(|line| {
        let mut words = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let address: Option<IpAddr> = words.next().and_then(|word| word.parse().ok());
        words.filter_map(move |name| Some((address?, name.to_owned())))
    });
    entries.take(ENTRIES).collect()
}

/// Returns the first name server of `/etc/resolv.conf`.
pub(super) fn nameserver(text: &str) -> Option<String> {
    let mut words = text.lines().map(str::split_whitespace);
    words
        .find_map(|mut words| (words.next()? == "nameserver").then(|| words.next())?)
        .map(str::to_owned)
}
