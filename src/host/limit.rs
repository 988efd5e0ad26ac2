//! How long commands may run.

use std::fmt;
use std::time::Duration;

/// The time after which a command ends, and what needs this time.
///
/// The host enforces it, so that the command and its children end there too. kubexm enforces it as well, a
/// little later, for a host that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    time: Duration,
    reason: &'static str,
}

/// The slowest transfer that kubexm waits for, in bytes per second.
const MINIMUM_SPEED: u64 = 256 * 1024;

impl Limit {
    /// For commands that read or write a few files. Every command has this limit unless its caller sets
    /// another one.
    pub const DEFAULT: Self = Self::new(Duration::from_secs(120), "short commands");
    /// For a change that starts programs, deletes large directories or sends objects to the API server.
    pub const CHANGE: Self = Self::new(Duration::from_secs(600), "changes on hosts");

    /// Creates a limit. `reason` names what needs this time in an error, as in "image pulls". The host counts
    /// whole seconds.
    pub const fn new(time: Duration, reason: &'static str) -> Self {
        Self { time, reason }
    }

    /// Returns the limit of a command that receives `bytes`: ten minutes, and the time of a link with
    /// 256 KiB/s.
    pub const fn transfer(bytes: u64) -> Self {
        let time = Duration::from_secs(600 + bytes / MINIMUM_SPEED);
        Self::new(time, "transfers of this size")
    }

    /// Returns the limit with the time of another command before it.
    #[must_use]
    pub const fn after(self, other: Duration) -> Self {
        Self::new(self.time.saturating_add(other), self.reason)
    }

    /// Returns the time.
    pub const fn time(self) -> Duration {
        self.time
    }

    /// Returns the time in seconds, at least 1.
    pub fn seconds(self) -> u64 {
        let whole = self.time.as_secs();
        match self.time.subsec_nanos() {
            0 => whole.max(1),
            _ => whole + 1,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} seconds for {}", self.seconds(), self.reason)
    }
}
