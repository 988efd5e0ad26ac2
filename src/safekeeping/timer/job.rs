//! What timers do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a timer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Job {
    /// Renews certificates that expire soon.
    Certificates,
    /// Creates a backup.
    Backup,
}

impl Job {
    /// Every job.
    pub const ALL: [Self; 2] = [Self::Certificates, Self::Backup];

    /// Returns the word of the command line and of unit names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Certificates => "certs",
            Self::Backup => "backup",
        }
    }

    /// Returns what a run does, for the description of the unit.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Certificates => "Renew certificates that expire soon",
            Self::Backup => "Create a backup",
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
