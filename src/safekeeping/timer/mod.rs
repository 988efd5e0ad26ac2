//! Timers of systemd on the machine that runs kubexm: they renew certificates that expire soon, and create backups.

mod checks;
mod install;
mod record;
mod remove;
mod schedule;
mod system;
mod unit;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use kubexm_session::{CommandError, Connection};
use kubexm_types::event::Events;

pub use install::installed;
pub use install::{InstallOptions, Unattended, install};
pub use record::{Recorder, states};
pub use record::{RunResult, TimerRun, TimerState};
pub use remove::{RemoveOptions, remove};
pub use schedule::Schedule;

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
    fn description(self) -> &'static str {
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

/// Which timer of which cluster.
#[derive(Debug, Clone)]
pub struct TimerOptions {
    pub job: Job,
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts, and the state directory.
    pub connection: Connection,
}

impl TimerOptions {
    /// Reads the name of the cluster, and returns it with its state directory.
    fn cluster(&self, events: &Events) -> Result<(kubexm_config::Cluster, PathBuf), CommandError> {
        let cluster = kubexm_config::load_cluster(&self.cluster)?;
        let state = self.connection.state_directory(&cluster, events)?;
        Ok((cluster, state))
    }
}

/// Returns the state of a timer; `None` if it is not installed.
///
/// # Errors
/// The cluster file is wrong, or the record cannot be read.
pub fn state(options: &TimerOptions, events: &Events) -> Result<Option<TimerState>, CommandError> {
    let (cluster, state) = options.cluster(events)?;
    let Some(mut found) = record::load(&state, options.job)? else {
        return Ok(None);
    };
    found.next = system::next(&unit::timer_name(options.job, &cluster.name));
    Ok(Some(found))
}

/// Returns a path that does not depend on the working directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
