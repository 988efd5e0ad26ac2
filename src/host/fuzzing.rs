//! Entry points of `tests/fuzz`, compiled only for it (feature `fuzzing`): parsers of what hosts print.

use crate::facts::{self, Facts};
use crate::supervise::Received;
use crate::{Limit, Output};

/// Parses what the script of facts prints. The error is a text for users.
///
/// # Errors
/// The text is not a list of facts.
pub fn facts(text: &str) -> Result<(Facts, f64), String> {
    facts::parsed(text)
}

/// Receives the output of a command in parts, and returns its result and its last lines.
pub fn output(parts: &[&[u8]], errors: &[&[u8]], status: i32) -> (Option<Output>, String) {
    let mut received = Received::after_mark("kubexm: output begins");
    for part in parts {
        if received.add_stdout(part).is_err() {
            break;
        }
    }
    for part in errors {
        received.add_stderr(part);
    }
    let last = received.last_lines();
    (received.output(status, Limit::DEFAULT).ok(), last)
}
