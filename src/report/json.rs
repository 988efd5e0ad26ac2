//! One JSON object a line.

use std::io::Write;

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::event::{Event, Listener};

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    event: &'a Event,
}

/// Writes to standard output.
pub struct Json;

impl Listener for Json {
    fn on(&self, event: &Event) {
        let time = OffsetDateTime::now_utc()
            .format(&Rfc3339)
            .unwrap_or_default();
        if let Ok(mut line) = serde_json::to_vec(&Line { time, event }) {
            line.push(b'\n');
            // A reader that went away must not stop an install halfway.
            let _ = std::io::stdout().lock().write_all(&line);
        }
    }
}
