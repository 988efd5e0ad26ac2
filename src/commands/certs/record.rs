//! The record of a renewal that has begun. A renewal that was interrupted continues with it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::{CommandError, FileError};
use kubexm_engine::plan::Journal;
use kubexm_types::UtcTime;

/// The file in the state directory.
const FILE: &str = "renewal.json";
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
}

#[derive(Serialize, Deserialize)]
struct Stored {
    since: String,
}

impl RenewalRecord {
    /// Returns the renewal that was interrupted, or a new one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn load_or_new(state: &Path) -> Result<Self, CommandError> {
        let path = state.join(FILE);
        let now = OffsetDateTime::now_utc();
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                // A damaged record means that everything is issued again.
                let stored = serde_json::from_str::<Stored>(&text).ok();
                let found = stored.and_then(|stored| Self::parse(stored.since, true));
                let recent = found.filter(|found| {
                    let age = now - found.since;
                    !age.is_negative() && age < LONGEST
                });
                recent.map_or_else(Self::new, Ok)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::new(),
            Err(error) => Err(FileError::io("read", &path, &error).into()),
        }
    }

    /// Returns whether a renewal has begun and has not ended, however long ago.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub(super) fn has_begun(state: &Path) -> Result<bool, CommandError> {
        let path = state.join(FILE);
        let found = path.try_exists();
        found.map_err(|error| FileError::io("read", &path, &error).into())
    }

    fn new() -> Result<Self, CommandError> {
        let now = UtcTime::now().whole_seconds().to_string();
        Self::parse(now, false)
            .ok_or_else(|| CommandError::configuration("the clock of this machine is wrong"))
    }

    fn parse(id: String, continues: bool) -> Option<Self> {
        let since = OffsetDateTime::parse(&id, &Rfc3339).ok()?;
        Some(Self {
            id,
            since,
            continues,
        })
    }

    /// Writes the record before the first certificate is issued.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn save(&self, journal: &Journal) -> Result<PathBuf, CommandError> {
        let stored = Stored {
            since: self.id.clone(),
        };
        let text = serde_json::to_vec(&stored).map_err(CommandError::configuration)?;
        let saved = journal.save(FILE, &text);
        saved.map_err(|error| {
            FileError::io("write renewal.json in", journal.folder(), &error).into()
        })
    }

    /// Removes the record of a complete renewal. If this fails, the next renewal within a day changes nothing.
    pub(super) fn remove(journal: &Journal) {
        let _ = std::fs::remove_file(journal.folder().join(FILE));
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
        let first = load();
        assert!(!first.continues);
        first.save(&journal).unwrap();
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
            assert!(RenewalRecord::has_begun(folder.path()).unwrap());
        }
        RenewalRecord::remove(&journal);
        assert!(!RenewalRecord::has_begun(folder.path()).unwrap());
        assert!(!folder.path().join(FILE).exists());
    }
}
