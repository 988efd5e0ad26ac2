//! Durations of the phases of an install.

use std::time::{Duration, Instant};

/// Measures the phases of a command.
pub struct Clock {
    pub began: Instant,
    last: Instant,
    pub laps: Vec<(&'static str, Duration)>,
}

impl Clock {
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            last: Instant::now(),
            laps: Vec::new(),
        }
    }

    pub fn lap(&mut self, phase: &'static str) {
        self.laps.push((phase, self.last.elapsed()));
        self.last = Instant::now();
    }
}
