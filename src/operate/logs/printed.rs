//! Which entries `logs --follow` has printed.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

use super::entry::LogEntry;
use super::read::{Read, Source};
use kubexm_types::HostName;

/// How much later than its time an entry may reach its log. Entries of this time are read again, and compared.
const LATE: time::Duration = time::Duration::seconds(3);

/// The entries that a read may return again.
#[derive(Default)]
pub(super) struct Printed {
    /// The time of the newest entry of each host.
    newest: BTreeMap<HostName, OffsetDateTime>,
    recent: BTreeSet<(HostName, OffsetDateTime, String, String)>,
    /// The time of the oldest entry of sources with more lines than the first read returned.
    oldest: BTreeMap<Source, OffsetDateTime>,
}

impl Printed {
    /// Returns from when on a host may have new entries; `None` if it had none.
    pub fn since(&self, host: &HostName) -> Option<OffsetDateTime> {
        self.newest.get(host).map(|newest| *newest - LATE)
    }

    /// Adds what the first read returned.
    pub fn begin(&mut self, read: Read) -> Vec<LogEntry> {
        for entry in &read.entries {
            let source = source(entry);
            if read.full.contains_key(&source) {
                self.oldest.entry(source).or_insert(entry.time);
            }
        }
        self.add(read).0
    }

    /// Adds what a read returned. Returns the entries that are new, and the sources of which older entries than these may be
    /// new, too, with the number of lines that were read.
    pub fn add(&mut self, read: Read) -> (Vec<LogEntry>, BTreeMap<Source, u32>) {
        let mut full = read.full;
        let mut fresh = Vec::new();
        for entry in read.entries {
            let source = source(&entry);
            let oldest = self.oldest.get(&source);
            let is_before = oldest.is_some_and(|oldest| entry.time < *oldest);
            let newest = self.newest.entry(entry.host.clone()).or_insert(entry.time);
            *newest = entry.time.max(*newest);
            if !is_before && self.recent.insert(key(&entry)) {
                fresh.push(entry);
            } else {
                // No entry is missing after one that was printed.
                full.remove(&source);
            }
        }
        self.forget();
        (fresh, full)
    }

    /// Removes the entries that no read returns again.
    fn forget(&mut self) {
        let newest = &self.newest;
        let is_late = |host: &HostName, time: OffsetDateTime| {
            newest
                .get(host)
                .is_some_and(|newest| time >= *newest - LATE)
        };
        self.recent.retain(|(host, time, ..)| is_late(host, *time));
        self.oldest.retain(|(host, _), time| is_late(host, *time));
    }
}

fn source(entry: &LogEntry) -> Source {
    (entry.host.clone(), entry.source.clone())
}

fn key(entry: &LogEntry) -> (HostName, OffsetDateTime, String, String) {
    let entry = entry.clone();
    (entry.host, entry.time, entry.source, entry.message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn entry(second: i64, message: &str) -> LogEntry {
        LogEntry {
            time: OffsetDateTime::from_unix_timestamp(second).unwrap(),
            host: "node1".parse().unwrap(),
            source: "kubelet".to_owned(),
            message: message.to_owned(),
        }
    }

    fn read(entries: &[LogEntry]) -> Read {
        Read {
            entries: entries.to_vec(),
            ..Read::default()
        }
    }

    /// A read of a source with more lines.
    fn full(entries: &[LogEntry]) -> Read {
        let full = [(source(&entries[0]), entries.len() as u32)];
        Read {
            full: full.into(),
            ..read(entries)
        }
    }

    #[test]
    fn entries_that_are_read_again_are_not_new() {
        let mut printed = Printed::default();
        let mut added = |entries: &[LogEntry]| printed.add(read(entries)).0.len();
        assert_eq!(added(&[entry(10, "a"), entry(20, "b")]), 2);
        assert_eq!(added(&[entry(20, "b"), entry(20, "c")]), 1);
        let again = [entry(18, "late"), entry(20, "b"), entry(20, "c")];
        assert_eq!(added(&again), 1);
        assert_eq!(added(&[entry(40, "d")]), 1);
    }

    #[test]
    fn entries_before_the_newest_lines_that_the_user_wants_do_not_follow() {
        let mut printed = Printed::default();
        let first = printed.begin(full(&[entry(20, "c")]));
        assert_eq!(first.len(), 1);
        let later = [
            entry(18, "a"),
            entry(19, "b"),
            entry(20, "c"),
            entry(21, "d"),
        ];
        assert_eq!(printed.add(read(&later)).0, [entry(21, "d")]);
        // Without more lines, an entry that was late follows.
        let mut printed = Printed::default();
        printed.begin(read(&[entry(20, "c")]));
        assert_eq!(printed.add(read(&later)).0.len(), 3);
    }

    #[test]
    fn sources_with_more_new_lines_than_a_read_are_known() {
        let mut printed = Printed::default();
        printed.begin(full(&[entry(10, "a"), entry(20, "b")]));
        let (_, missing) = printed.add(full(&[entry(20, "b"), entry(21, "c")]));
        assert!(missing.is_empty());
        let (_, missing) = printed.add(full(&[entry(22, "e"), entry(22, "f")]));
        assert_eq!(missing.into_values().collect::<Vec<_>>(), [2]);
    }
}
