//! Durations of the phases of an install.

use std::time::{Duration, Instant};

/// Measures the phases of a command.
pub(super) struct Clock {
    pub(super) began: Instant,
    last: Instant,
    pub(super) laps: Vec<(&'static str, Duration)>,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self {
            began: Instant::now(),
            last: Instant::now(),
            laps: Vec::new(),
        }
    }

    pub(super) fn lap(&mut self, phase: &'static str) {
        self.laps.push((phase, self.last.elapsed()));
        self.last = Instant::now();
    }
}
