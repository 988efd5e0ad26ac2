//! Reports events to people and programs: progress bars, lines, or JSON.

mod json;
mod plain;
mod terminal;
mod text;

#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use kubexm_types::Message;
use kubexm_types::event::{Event, Events, StepState};

/// The format of progress and results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// Progress bars on a terminal, lines elsewhere
    Auto,
    /// One line for each event
    Plain,
    /// One JSON document, or one JSON object per line for commands with progress
    Json,
}

/// Returns a listener of the chosen kind. With `log`, log lines go to the terminal, so nothing is redrawn.
pub fn events(output: Output, log: bool) -> Events {
    match output {
        Output::Json => Events::new(Arc::new(json::Json::to(std::io::stdout()))),
        Output::Auto if draws() && !log => Events::new(Arc::new(terminal::Terminal::new())),
        Output::Auto | Output::Plain => Events::new(Arc::new(plain::Plain::to(std::io::stderr()))),
    }
}

/// Returns whether progress bars can be drawn: standard error is a terminal that can move its cursor.
fn draws() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the word for a finished step; `None` if the step gets no line.
fn word(state: &StepState) -> Option<&'static str> {
    match state {
        StepState::Started | StepState::Unchanged | StepState::Met => None,
        StepState::Changed => Some("done"),
        StepState::Ran => Some("ran"),
        StepState::Reverted => Some("reverted"),
        StepState::Failed { .. } => Some("FAILED"),
    }
}

/// Returns the text about work without progress: what it is, and what it is missing.
fn waiting(what: &str, missing: Option<&str>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let missing = missing.filter(|missing| !missing.is_empty());
    let missing = missing.map_or_else(String::new, |missing| format!(": {missing}"));
    format!("no progress for {seconds} s, waiting for: {what}{missing}")
}

/// Returns the text of a warning, also of a finding that does not prevent an install. The error of the command contains the
/// others.
fn warning(event: &Event) -> Option<String> {
    let message = match event {
        Event::Finding {
            host,
            fatal: false,
            what,
            hint,
            ..
        } => Message::new(what).hint(hint).within(host),
        Event::Warning { message, hint, .. } => Message::new(message).or_hint(hint.as_deref()),
        _ => return None,
    };
    Some(format!("warning: {}", message.as_item()))
}

/// Returns a number of bytes with a binary unit, such as `1.50 MiB`.
pub fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}
