//! Timers of systemd on the machine that runs kubexm: they renew certificates that expire soon, and create backups.

mod checks;
mod install;
mod job;
mod options;
mod owned;
mod record;
mod remove;
mod schedule;
mod system;
mod unit;

use kubexm_session::CommandError;
use kubexm_types::event::Events;

pub use install::installed;
pub use install::{InstallOptions, Unattended, install};
pub use job::Job;
pub use options::TimerOptions;
pub use record::{Recorder, states};
pub use record::{RunResult, TimerRun, TimerState};
pub use remove::{RemoveOptions, remove};
pub use schedule::Schedule;

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
