//! What a command writes to standard output: text for people, or one JSON document.
//!
//! A reader may close standard output early: `kubexm bundle list B | head -1` is not a failure.

use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use serde::Serialize;

use super::Failure;
use kubexm_types::event::Events;
use kubexm_types::untrusted;

/// The version of all JSON documents. A new field does not change it; a removed or changed field does.
pub const API_VERSION: &str = "output.kubexm.io/v1";

/// Set if standard output is for events alone.
static EVENTS: OnceLock<Events> = OnceLock::new();

/// Turns all text into `note` events from now on, because standard output is for events alone.
pub fn redirect_to_events(events: &Events) {
    // Only the first call has an effect, and `main` calls it once.
    let _ = EVENTS.set(events.clone());
}

/// Writes text without control sequences: names in bundles, locks and registries come from outside.
///
/// If the reader closed the pipe, the rest is dropped and the work continues. Any other failure, such as
/// a full disk behind `>`, ends the program with exit code 1. Otherwise half an output could be used as a
/// complete one.
pub fn text(text: &str) {
    if let Some(events) = EVENTS.get() {
        return events.note(text.trim_end());
    }
    let text = untrusted::printable(text);
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // Standard error may be closed, too.
            let _ = writeln!(
                std::io::stderr(),
                "error: standard output cannot be written: {error}"
            );
            std::process::exit(1);
        }
        _ => {}
    }
}

/// A JSON document with its version and kind.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

/// A failure as a JSON document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDocument<'a> {
    /// The exit code of the process.
    pub exit_code: u8,
    /// The text that people get.
    pub message: &'a str,
}

/// A list of files as a JSON document.
#[derive(Serialize)]
pub struct Files<'a, T> {
    /// The files.
    pub files: &'a [T],
}

/// Returns the JSON document of a result.
pub fn json<T: Serialize>(kind: &'static str, body: &T) -> Result<String, Failure> {
    let document = Document {
        api_version: API_VERSION,
        kind,
        body,
    };
    let text = serde_json::to_string_pretty(&document);
    Ok(untrusted::json(&text.map_err(Failure::unexpected)?) + "\n")
}

/// Writes the JSON document of a result.
pub fn document<T: Serialize>(kind: &'static str, body: &T) -> Result<(), Failure> {
    text(&json(kind, body)?);
    Ok(())
}

/// Writes a line, as `println!` does, without its panic.
macro_rules! outln {
    ($($argument:tt)*) => {
        $crate::cli::output::text(&format!("{}\n", format_args!($($argument)*)))
    };
}
pub(super) use outln;
