//! What programs log when something is wrong: one table for all logs.

mod advice;
mod remedy;
mod table;

use super::check::{Found, Topic};
use super::network;
use super::seen::{Logs, Seen};
use advice::Advice;
use kubexm_config::cluster::RuntimeKind;
use kubexm_operate::logs::LogEntry;
use kubexm_types::HostName;

/// The most bytes that a quote has before the text that matched.
const BEFORE: usize = 100;
/// Seconds up to which an entry counts by itself.
const FRESH: i64 = 180;
/// Seconds up to which an entry counts while a pod of its node is not ready: the kubelet has tried again since.
const TRIED: i64 = 150;
/// Seconds before the newest entry of the same program in which the cause of its end is. Older ends had other causes.
const LAST: i64 = 30;

/// A source that stands for the units of all runtimes.
const RUNTIMES: &str = "runtimes";

/// When an entry of a log is a finding. Logs also contain errors of the past.
#[derive(Debug, Clone, Copy)]
enum If {
    /// It is at most three minutes old.
    Fresh,
    /// The same, and it is about packets of the VXLAN device of this host.
    Vxlan,
    /// The program on this host is not healthy now, and the entry is among the last ones of its source.
    Unhealthy(&'static str),
    /// A pod on this node is not ready now, and does not wait for an image; without an API server, the entry is fresh.
    Pods,
    /// A pod on this node waits for an image now; without an API server, the entry is fresh.
    Images,
    /// The check found the same on the host by its state: the entry is only evidence.
    Evidence,
}

/// A row of the table.
struct Pattern {
    check: &'static str,
    /// Units and containers of the cluster; none for all.
    sources: &'static [&'static str],
    /// Texts that the entry contains, all of them.
    texts: &'static [&'static str],
    /// Texts that the entry does not contain, none of them.
    without: &'static [&'static str],
    /// The smallest number of entries.
    least: usize,
    condition: If,
    /// The topic of a finding that is about the same; `None` for every finding of the check.
    topic: Option<Topic>,
    advice: Advice,
}

impl Pattern {
    fn matches(&self, seen: &Seen, host: &HostName, entry: &LogEntry) -> bool {
        let is_source = self.sources.is_empty()
            || self.sources.iter().any(|name| match *name {
                RUNTIMES => is_runtime(&entry.source),
                name => is_of(&entry.source, name),
            });
        let has = |text: &&str| entry.message.contains(*text);
        is_source
            && self.texts.iter().all(has)
            && !self.without.iter().any(has)
            && (!matches!(self.condition, If::Vxlan) || is_of_vxlan(seen, host, entry))
    }

    /// Returns whether a finding is about the same on a host.
    fn is_known_by(&self, found: &Found, host: &HostName) -> bool {
        (found.hosts.is_empty() || found.hosts.contains(host))
            && (self.topic.is_none() || found.topic == self.topic)
    }

    /// Returns whether an entry is about the present. `before` is how much older it is than the newest one of its source.
    fn counts(&self, seen: &Seen, host: &HostName, age: i64, before: i64) -> bool {
        match self.condition {
            If::Fresh | If::Vxlan => age <= FRESH,
            If::Unhealthy(program) => before <= LAST && seen.is_unhealthy(host, program),
            If::Pods | If::Images => {
                match seen.nodes_with_pods(matches!(self.condition, If::Images)) {
                    Some(nodes) => age <= TRIED && nodes.contains(host.as_str()),
                    None => age <= FRESH,
                }
            }
            If::Evidence => false,
        }
    }
}

/// Returns whether a source is a unit of a runtime.
fn is_runtime(source: &str) -> bool {
    let mut units = RuntimeKind::all_properties().flat_map(|own| own.units());
    units.any(|unit| unit.strip_suffix(".service") == Some(source))
}

/// Returns whether a source is a unit or a container of the cluster with this name. Only administrators create pods in
/// namespaces that begin with `kube-`: others could log what they want.
fn is_of(source: &str, name: &str) -> bool {
    match source.split_once('/') {
        None => source == name,
        Some((namespace, pod)) => {
            let rest = pod.strip_prefix(name);
            namespace.starts_with("kube-")
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        }
    }
}

/// Returns whether the kernel names the port of this host's VXLAN device as the target of a packet.
fn is_of_vxlan(seen: &Seen, host: &HostName, entry: &LogEntry) -> bool {
    let answers = seen.hosts.get(host);
    let overlay = answers.and_then(|answers| answers.one("overlay"));
    overlay.is_some_and(|overlay| {
        let port = network::port_of(overlay);
        entry.message.contains(&format!(":{port} ulen "))
    })
}

/// Adds what the logs have to the findings of a check.
pub(super) fn extend(seen: &Seen, check: &str, all: &mut Vec<Found>) {
    for pattern in table::TABLE.iter().filter(|pattern| pattern.check == check) {
        for (host, logs) in &seen.logs {
            let entries = logs.entries.iter();
            let entries = entries.filter(|entry| pattern.matches(seen, host, entry));
            let entries: Vec<&LogEntry> = entries.collect();
            let Some(newest) = entries.last().filter(|_| entries.len() >= pattern.least) else {
                continue;
            };
            let line = quote(logs, newest, pattern.texts[0]);
            let of_source = logs
                .entries
                .iter()
                .filter(|entry| entry.source == newest.source);
            let latest = of_source.map(|entry| entry.time).max();
            let before = latest.map_or(0, |time| (time - newest.time).whole_seconds());
            let age = age(logs, newest);
            let mut known = all
                .iter_mut()
                .filter(|found| pattern.is_known_by(found, host));
            if let Some(found) = known.next() {
                // A program fails because of it.
                found.is_warning &= !pattern.counts(seen, host, age, before);
                let has_one = found
                    .evidence
                    .iter()
                    .any(|line| line.starts_with(&newest.source));
                if age <= FRESH && before <= LAST && !has_one {
                    found.add_evidence([line]);
                }
            } else if pattern.counts(seen, host, age, before) {
                let advice = &pattern.advice;
                let found = Found::new(advice.what)
                    .on(host)
                    .on_topic(pattern.topic)
                    .evidence([line])
                    .cause(advice.cause)
                    .fix(advice.fix)
                    .likely();
                all.push(advice.remedy.add(seen, host, newest, found));
            }
        }
    }
}

fn age(logs: &Logs, entry: &LogEntry) -> i64 {
    logs.now.saturating_sub(entry.time.unix_timestamp())
}

/// Quotes the part of an entry around the text that matched.
fn quote(logs: &Logs, entry: &LogEntry, text: &str) -> String {
    let age = age(logs, entry).max(0);
    let age = if age < 120 {
        format!("{age} s")
    } else {
        format!("{} min", age / 60)
    };
    let message = entry.message.trim();
    let at = message.find(text).unwrap_or_default();
    let start = if at <= BEFORE {
        0
    } else {
        // The next position between two characters.
        (at - BEFORE..at)
            .find(|start| message.is_char_boundary(*start))
            .unwrap_or(at)
    };
    let dots = if start == 0 { "" } else { "…" };
    format!("{}, {age} ago: {dots}{}", entry.source, &message[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_users_are_not_those_of_the_cluster() {
        assert!(is_of("kubelet", "kubelet"));
        assert!(is_of("kube-system/etcd-node1", "etcd"));
        assert!(!is_of("default/etcd-node1", "etcd"));
        assert!(!is_of("kube-system/etcdish-1", "etcd"));
        assert!(!is_of("kubelet2", "kubelet"));
    }

    #[test]
    fn units_of_runtimes_are_sources_of_pulls() {
        assert!(is_runtime("cri-dockerd") && is_runtime("docker") && is_runtime("crio"));
        assert!(!is_runtime("kubelet") && !is_runtime("kube-system/containerd"));
    }
}
