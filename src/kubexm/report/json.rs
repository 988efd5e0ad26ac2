//! One JSON object per line.

use std::io::{Stdout, Write};
use std::sync::Mutex;

use serde::Serialize;

use kubexm_types::event::{Event, Listener};
use kubexm_types::{UtcTime, untrusted};

#[derive(Serialize)]
struct Line<'a> {
    time: UtcTime,
    #[serde(flatten)]
    event: &'a Event,
}

/// Writes to standard output, or to `W`.
pub struct Json<W = Stdout>(Mutex<W>);

impl<W: Write> Json<W> {
    /// Returns a reporter that writes lines to `out`.
    pub fn to(out: W) -> Self {
        Self(Mutex::new(out))
    }
}

impl<W: Write + Send> Listener for Json<W> {
    fn on(&self, event: &Event) {
        let time = UtcTime::now();
        if let Ok(line) = serde_json::to_string(&Line { time, event })
            && let Ok(mut out) = self.0.lock()
        {
            let line = untrusted::json(&line) + "\n";
            // A closed pipe must not stop an install halfway.
            let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        }
    }
}
