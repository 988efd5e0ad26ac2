//! `logs --follow`: entries as programs log them.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

use super::{LogEntry, LogsOptions, LogsReport, collect, connect};
use crate::session::Hosts;
use crate::stop::unless_stopped;
use crate::{CommandError, Stop};
use kubexm_host::HostError;
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// How much later than its time an entry may reach its log. Entries of this time are read again, and compared.
const LATE: time::Duration = time::Duration::seconds(3);
/// How much a host's clock may be behind the one of this machine. It counts until the host has an entry.
const SKEW: time::Duration = time::Duration::minutes(5);
/// The number of entries of each source in one read.
const LINES: u32 = 5000;

/// Reads the new entries of a program again and again.
pub struct Follower {
    options: LogsOptions,
    hosts: Hosts,
    /// When the first read began, by the clock of this machine.
    began: OffsetDateTime,
    /// The time of the newest entry of each host.
    newest: BTreeMap<HostName, OffsetDateTime>,
    /// The entries that the next read may return again.
    recent: BTreeSet<(HostName, OffsetDateTime, String, String)>,
    /// Hosts that did not answer the last time.
    silent: BTreeSet<HostName>,
}

impl Follower {
    /// Connects to the hosts and reads the entries that exist. They are in the order of time.
    ///
    /// # Errors
    /// As [`super::logs`].
    pub async fn begin(
        options: LogsOptions,
        events: &Events,
        stop: &Stop,
    ) -> Result<(Self, Vec<LogEntry>), CommandError> {
        let (hosts, unreachable) = connect(&options, events, stop).await?;
        let mut follower = Self {
            began: OffsetDateTime::now_utc(),
            newest: BTreeMap::new(),
            recent: BTreeSet::new(),
            silent: BTreeSet::new(),
            hosts,
            options,
        };
        let since = follower.options.since;
        let reading = collect(&follower.hosts, &follower.options, |_| since);
        let report = unless_stopped(stop, reading).await?;
        follower.options.lines = LINES;
        follower.warn(unreachable, events);
        let entries = follower.take(report, events);
        Ok((follower, entries))
    }

    /// Returns the entries that are new since the last time. A host that does not answer is reported once.
    ///
    /// # Errors
    /// The unit or container does not exist any more on any host.
    pub async fn next(
        &mut self,
        events: &Events,
        stop: &Stop,
    ) -> Result<Vec<LogEntry>, CommandError> {
        let since = |host: &HostName| {
            let known = self.newest.get(host).map(|newest| *newest - LATE);
            Some(known.unwrap_or(self.began - SKEW))
        };
        let reading = collect(&self.hosts, &self.options, since);
        let report = unless_stopped(stop, reading).await?;
        Ok(self.take(report, events))
    }

    /// Returns the entries that were not there before.
    fn take(&mut self, report: LogsReport, events: &Events) -> Vec<LogEntry> {
        self.warn(report.errors, events);
        let mut fresh = Vec::new();
        for entry in report.entries {
            let newest = self.newest.entry(entry.host.clone()).or_insert(entry.time);
            *newest = entry.time.max(*newest);
            if self.recent.insert(key(&entry)) {
                fresh.push(entry);
            }
        }
        let newest = &self.newest;
        self.recent.retain(|(host, time, ..)| {
            newest
                .get(host)
                .is_some_and(|newest| *time >= *newest - LATE)
        });
        fresh
    }

    /// Reports hosts that did not answer, if they answered the last time.
    fn warn(&mut self, errors: Vec<HostError>, events: &Events) {
        let mut silent = BTreeSet::new();
        for error in errors {
            if !self.silent.contains(error.host()) {
                events.warn(error.to_string());
            }
            silent.insert(error.host().clone());
        }
        self.silent = silent;
    }
}

fn key(entry: &LogEntry) -> (HostName, OffsetDateTime, String, String) {
    let entry = entry.clone();
    (entry.host, entry.time, entry.source, entry.message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Connection, HostSelection};

    fn entry(second: i64, message: &str) -> LogEntry {
        LogEntry {
            time: OffsetDateTime::from_unix_timestamp(second).unwrap(),
            host: "node1".parse().unwrap(),
            source: "kubelet".to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn entries_that_are_read_again_are_not_new() {
        let options = LogsOptions {
            cluster: "cluster.yaml".into(),
            connection: Connection::default(),
            selection: HostSelection::default(),
            program: super::super::ProgramName::parse("kubelet").unwrap(),
            since: None,
            lines: 10,
        };
        let mut follower = Follower {
            options,
            hosts: Hosts::default(),
            began: OffsetDateTime::UNIX_EPOCH,
            newest: BTreeMap::new(),
            recent: BTreeSet::new(),
            silent: BTreeSet::new(),
        };
        let events = Events::silent();
        let mut taken = |entries: &[LogEntry]| {
            let report = LogsReport {
                entries: entries.to_vec(),
                errors: Vec::new(),
            };
            follower.take(report, &events).len()
        };
        assert_eq!(taken(&[entry(10, "a"), entry(20, "b")]), 2);
        assert_eq!(taken(&[entry(20, "b"), entry(20, "c")]), 1);
        assert_eq!(
            taken(&[entry(18, "late"), entry(20, "b"), entry(20, "c")]),
            1
        );
        assert_eq!(taken(&[entry(40, "d")]), 1);
    }
}
