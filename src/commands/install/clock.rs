//! Durations of the phases of an install.

use std::time::{Duration, Instant};

/// Measures the phases of a command.
pub(crate) struct Clock {
    pub(crate) began: Instant,
    last: Instant,
    pub(crate) laps: Vec<(&'static str, Duration)>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            began: Instant::now(),
            last: Instant::now(),
            laps: Vec::new(),
        }
    }

    pub(crate) fn lap(&mut self, phase: &'static str) {
        self.laps.push((phase, self.last.elapsed()));
        self.last = Instant::now();
    }
}
