//! The record of a renewal that has begun. A renewal that was interrupted continues with it.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use crate::CommandError;
use crate::state_record::{StateRecord, read_text};
use kubexm_types::{HostName, UtcTime};

/// How long an interrupted renewal can continue. Later, its certificates are issued again, as a new renewal.
const LONGEST: Duration = Duration::hours(24);

/// A renewal that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewalRecord {
    /// The time of its beginning, which identifies it.
    pub id: String,
    /// The same time.
    pub since: UtcTime,
    /// Whether an earlier run began it.
    pub continues: bool,
    /// The hosts that earlier runs have begun with, and that may have certificates of before.
    pending: BTreeSet<HostName>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    since: UtcTime,
    /// A record of an earlier version does not have them.
    #[serde(default)]
    hosts: BTreeSet<HostName>,
}

impl StateRecord for Stored {
    const FILE: &'static str = RenewalRecord::FILE;
    const TITLE: &'static str = "the record of the renewal";
    const HINT: &'static str = "remove the file; everything is then issued again";
}

impl RenewalRecord {
    /// The file in the state directory.
    pub const FILE: &'static str = "renewal.json";

    /// Returns the renewal that was interrupted, or a new one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load_or_new(state: &Path) -> Result<Self, CommandError> {
        let Some(text) = read_text(&state.join(Self::FILE))? else {
            return Ok(Self::new(&BTreeSet::new()));
        };
        // A damaged record means that everything is issued again.
        let Ok(Stored { since, hosts }) = serde_json::from_str(&text) else {
            return Ok(Self::new(&BTreeSet::new()));
        };
        let age = OffsetDateTime::now_utc() - since.time();
        if age.is_negative() || age >= LONGEST {
            return Ok(Self::new(&hosts));
        }
        Ok(Self {
            continues: true,
            ..Self::of(since, &hosts)
        })
    }

    /// Returns whether a renewal has begun and has not ended, however long ago. `renewed` are the hosts with certificates that a
    /// renewal replaces.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub fn has_begun(state: &Path, renewed: &BTreeSet<HostName>) -> Result<bool, CommandError> {
        let Some(text) = read_text(&state.join(Self::FILE))? else {
            return Ok(false);
        };
        let stored = serde_json::from_str::<Stored>(&text).ok();
        // Without hosts, it is not known which of them have begun.
        Ok(stored
            .is_none_or(|stored| stored.hosts.is_empty() || !stored.hosts.is_disjoint(renewed)))
    }

    /// Removes the record.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(state: &Path) -> Result<(), CommandError> {
        Stored::remove(state)
    }

    /// Returns a new renewal of the same hosts, which issues everything again.
    pub fn restarted(&self) -> Self {
        Self::new(&self.pending)
    }

    fn new(pending: &BTreeSet<HostName>) -> Self {
        Self::of(UtcTime::now().whole_seconds(), pending)
    }

    fn of(since: UtcTime, pending: &BTreeSet<HostName>) -> Self {
        Self {
            id: since.to_string(),
            since,
            continues: false,
            pending: pending.clone(),
        }
    }

    /// Writes the record before the first certificate of these hosts is issued.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&self, state: &Path, hosts: &BTreeSet<HostName>) -> Result<(), CommandError> {
        self.save(state, self.pending.union(hosts).cloned().collect())
    }

    /// Ends the renewal of these hosts. The record stays for others of `renewed`, with which an earlier run has begun. `renewed`
    /// are the hosts with certificates that a renewal replaces: a host may have left the cluster since.
    ///
    /// # Errors
    /// The file cannot be written or removed.
    pub fn end(
        &self,
        state: &Path,
        hosts: &BTreeSet<HostName>,
        renewed: &BTreeSet<HostName>,
    ) -> Result<(), CommandError> {
        let pending = self.pending.difference(hosts);
        let pending: BTreeSet<HostName> = pending
            .filter(|name| renewed.contains(*name))
            .cloned()
            .collect();
        if pending.is_empty() {
            Self::remove(state)
        } else {
            self.save(state, pending)
        }
    }

    fn save(&self, state: &Path, hosts: BTreeSet<HostName>) -> Result<(), CommandError> {
        let since = self.since.clone();
        Stored { since, hosts }.save(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_renewal_continues_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let load = || RenewalRecord::load_or_new(folder.path()).unwrap();
        let names = |names: &[&str]| -> BTreeSet<HostName> {
            names.iter().map(|name| name.parse().unwrap()).collect()
        };
        let (one, two) = (names(&["node1"]), names(&["node2"]));
        let all = names(&["node1", "node2"]);
        let has_begun = || RenewalRecord::has_begun(folder.path(), &all).unwrap();
        let first = load();
        assert!(!first.continues);
        first.begin(state, &one).unwrap();
        let again = load();
        assert!(again.continues);
        assert_eq!((again.id, again.since), (first.id, first.since));
        for text in [
            "{\"since\": \"2020-01-31T12:00:00Z\"}",
            "{\"since\": \"2999-01-31T12:00:00Z\"}",
            "x",
        ] {
            std::fs::write(state.join(RenewalRecord::FILE), text).unwrap();
            assert!(!load().continues, "{text}");
            // A timer that runs each week finds it nevertheless.
            assert!(has_begun());
        }
        load().end(state, &one, &all).unwrap();
        assert!(!has_begun());
        load().begin(state, &all).unwrap();
        // The renewal of one host alone does not make the other one complete.
        let alone = load();
        alone.begin(state, &one).unwrap();
        alone.end(state, &one, &all).unwrap();
        assert!(load().continues);
        load().end(state, &two, &all).unwrap();
        assert!(!has_begun());
        // The other one has left the cluster.
        load().begin(state, &all).unwrap();
        assert!(!RenewalRecord::has_begun(folder.path(), &names(&["node3"])).unwrap());
        load().end(state, &one, &one).unwrap();
        assert!(!has_begun());
    }

    #[test]
    fn record_of_an_earlier_version_keeps_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(RenewalRecord::FILE);
        let since = UtcTime::now().whole_seconds().to_string();
        std::fs::write(&file, format!("{{\"since\": \"{since}\"}}")).unwrap();
        let record = RenewalRecord::load_or_new(folder.path()).unwrap();
        assert_eq!((record.continues, &record.id), (true, &since));
        record.begin(folder.path(), &BTreeSet::new()).unwrap();
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(
            written.contains(&format!("\"since\": \"{since}\"")),
            "{written}"
        );
        std::fs::write(&file, "{\"since\": \"2026-02-31T12:00:00Z\"}").unwrap();
        assert!(!RenewalRecord::load_or_new(folder.path()).unwrap().continues);
    }
}
