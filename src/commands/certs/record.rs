//! The record of a renewal that has begun. A renewal that was interrupted continues with it.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::{CommandError, FileError, state_record};
use kubexm_engine::plan::Journal;
use kubexm_types::{HostName, UtcTime};

/// The file in the state directory.
const FILE: &str = state_record::RENEWAL;
/// How long an interrupted renewal can continue. Later, its certificates are issued again, as a new renewal.
const LONGEST: Duration = Duration::hours(24);

/// A renewal that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RenewalRecord {
    /// The time of its beginning, which identifies it.
    pub(super) id: String,
    /// The same time.
    pub(super) since: OffsetDateTime,
    /// Whether an earlier run began it.
    pub(super) continues: bool,
    /// The hosts that earlier runs have begun with, and that may have certificates of before.
    pending: BTreeSet<HostName>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    since: String,
    /// A record of an earlier version does not have them.
    #[serde(default)]
    hosts: BTreeSet<HostName>,
}

impl RenewalRecord {
    /// Returns the renewal that was interrupted, or a new one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn load_or_new(state: &Path) -> Result<Self, CommandError> {
        let Some(text) = state_record::read(&state.join(FILE))? else {
            return Self::new(&BTreeSet::new());
        };
        // A damaged record means that everything is issued again.
        let Ok(Stored { since, hosts }) = serde_json::from_str(&text) else {
            return Self::new(&BTreeSet::new());
        };
        let now = OffsetDateTime::now_utc();
        let recent = Self::parse(since, &hosts).filter(|found| {
            let age = now - found.since;
            !age.is_negative() && age < LONGEST
        });
        match recent {
            Some(record) => Ok(Self {
                continues: true,
                ..record
            }),
            None => Self::new(&hosts),
        }
    }

    /// Returns whether a renewal has begun and has not ended, however long ago. `renewed` are the hosts with certificates that a
    /// renewal replaces.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub(super) fn has_begun(
        state: &Path,
        renewed: &BTreeSet<HostName>,
    ) -> Result<bool, CommandError> {
        let Some(text) = state_record::read(&state.join(FILE))? else {
            return Ok(false);
        };
        let stored = serde_json::from_str::<Stored>(&text).ok();
        // Without hosts, it is not known which of them have begun.
        Ok(stored
            .is_none_or(|stored| stored.hosts.is_empty() || !stored.hosts.is_disjoint(renewed)))
    }

    /// Returns a new renewal of the same hosts, which issues everything again.
    ///
    /// # Errors
    /// The clock of this machine is wrong.
    pub(super) fn restarted(&self) -> Result<Self, CommandError> {
        Self::new(&self.pending)
    }

    fn new(pending: &BTreeSet<HostName>) -> Result<Self, CommandError> {
        let now = UtcTime::now().whole_seconds().to_string();
        Self::parse(now, pending)
            .ok_or_else(|| CommandError::configuration("the clock of this machine is wrong"))
    }

    fn parse(id: String, pending: &BTreeSet<HostName>) -> Option<Self> {
        let since = OffsetDateTime::parse(&id, &Rfc3339).ok()?;
        Some(Self {
            id,
            since,
            continues: false,
            pending: pending.clone(),
        })
    }

    /// Writes the record before the first certificate of these hosts is issued.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn begin(
        &self,
        journal: &Journal,
        hosts: &BTreeSet<HostName>,
    ) -> Result<(), CommandError> {
        self.save(journal, self.pending.union(hosts).cloned().collect())
    }

    /// Ends the renewal of these hosts. The record stays for others of `renewed`, with which an earlier run has begun. `renewed`
    /// are the hosts with certificates that a renewal replaces: a host may have left the cluster since.
    ///
    /// # Errors
    /// The file cannot be written or removed.
    pub(super) fn end(
        &self,
        journal: &Journal,
        hosts: &BTreeSet<HostName>,
        renewed: &BTreeSet<HostName>,
    ) -> Result<(), CommandError> {
        let pending = self.pending.difference(hosts);
        let pending: BTreeSet<HostName> = pending
            .filter(|name| renewed.contains(*name))
            .cloned()
            .collect();
        if pending.is_empty() {
            state_record::remove(&journal.folder().join(FILE))
        } else {
            self.save(journal, pending)
        }
    }

    fn save(&self, journal: &Journal, hosts: BTreeSet<HostName>) -> Result<(), CommandError> {
        let stored = Stored {
            since: self.id.clone(),
            hosts,
        };
        let text = serde_json::to_vec(&stored).map_err(CommandError::configuration)?;
        let saved = journal.save(FILE, &text);
        saved.map_err(|error| FileError::io("write renewal.json in", journal.folder(), &error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_renewal_continues_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let load = || RenewalRecord::load_or_new(folder.path()).unwrap();
        let names = |names: &[&str]| -> BTreeSet<HostName> {
            names.iter().map(|name| name.parse().unwrap()).collect()
        };
        let (one, two) = (names(&["node1"]), names(&["node2"]));
        let all = names(&["node1", "node2"]);
        let has_begun = || RenewalRecord::has_begun(folder.path(), &all).unwrap();
        let first = load();
        assert!(!first.continues);
        first.begin(&journal, &one).unwrap();
        let again = load();
        assert!(again.continues);
        assert_eq!((again.id, again.since), (first.id, first.since));
        for text in [
            "{\"since\": \"2020-01-31T12:00:00Z\"}",
            "{\"since\": \"2999-01-31T12:00:00Z\"}",
            "x",
        ] {
            journal.save(FILE, text.as_bytes()).unwrap();
            assert!(!load().continues, "{text}");
            // A timer that runs each week finds it nevertheless.
            assert!(has_begun());
        }
        load().end(&journal, &one, &all).unwrap();
        assert!(!has_begun());
        load().begin(&journal, &all).unwrap();
        // The renewal of one host alone does not make the other one complete.
        let alone = load();
        alone.begin(&journal, &one).unwrap();
        alone.end(&journal, &one, &all).unwrap();
        assert!(load().continues);
        load().end(&journal, &two, &all).unwrap();
        assert!(!has_begun());
        // The other one has left the cluster.
        load().begin(&journal, &all).unwrap();
        assert!(!RenewalRecord::has_begun(folder.path(), &names(&["node3"])).unwrap());
        load().end(&journal, &one, &one).unwrap();
        assert!(!has_begun());
    }
}
