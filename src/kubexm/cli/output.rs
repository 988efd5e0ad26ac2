//! What a command writes to standard output: text for people, or one JSON document.
//!
//! A reader may close standard output early: `kubexm bundle list B | head -1` is not a failure.

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use serde::Serialize;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

use super::Failure;
use kubexm_types::event::Events;
use kubexm_types::message::Listed;
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
    // The work continues without a reader.
    let _ = write(text);
}

/// Writes text as [`text`]. Breaks if the reader closed the pipe, for a command that only prints.
pub fn write(text: &str) -> ControlFlow<()> {
    if let Some(events) = EVENTS.get() {
        events.note(text.trim_end());
        return ControlFlow::Continue(());
    }
    write_to(&mut std::io::stdout().lock(), text).unwrap_or_else(|error| {
        // Standard error may be closed, too.
        let _ = writeln!(
            std::io::stderr(),
            "error: standard output cannot be written: {error}"
        );
        std::process::exit(1);
    })
}

fn write_to(out: &mut impl Write, text: &str) -> std::io::Result<ControlFlow<()>> {
    let text = untrusted::printable(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(error),
    }
}

/// Waits until the reader of standard output closed the pipe. Waits for ever if standard output is something else, such as
/// a file.
pub async fn closed() {
    reader_gone(std::io::stdout().as_fd()).await;
}

/// The end of a pipe for writes has an error once nothing has the other end open.
async fn reader_gone(pipe: BorrowedFd<'_>) {
    let watched = pipe
        .try_clone_to_owned()
        // The checked form would make writes of the whole process fail while the pipe is full.
        .and_then(Sender::from_owned_fd_unchecked);
    let gone = match &watched {
        Ok(watched) => watched.ready(Interest::ERROR).await.is_ok(),
        // The kernel does not watch files.
        Err(_) => false,
    };
    if !gone {
        std::future::pending::<()>().await;
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
    /// The kind of the failure.
    pub error_kind: Option<kubexm_types::ErrorKind>,
    /// What failed, where and why.
    pub message: &'a str,
    /// What the user can do.
    pub hint: Option<&'a str>,
    /// Each failure, if the message is a list of several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Listed>,
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
    Ok(untrusted::json(&text.map_err(Failure::defect)?) + "\n")
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[test]
    fn closed_pipe_ends_the_output_and_is_no_failure() {
        let (reader, mut pipe) = std::io::pipe().unwrap();
        assert!(write_to(&mut pipe, "a\n").unwrap().is_continue());
        drop(reader);
        assert!(write_to(&mut pipe, "b\n").unwrap().is_break());
        let mut full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        assert!(write_to(&mut full, "c\n").is_err());
    }

    #[tokio::test]
    async fn reader_that_ends_is_noticed_without_output() {
        let (reader, mut pipe) = std::io::pipe().unwrap();
        pipe.write_all(b"not read yet\n").unwrap();
        let soon = Duration::from_millis(100);
        timeout(soon, reader_gone(pipe.as_fd())).await.unwrap_err();
        drop(reader);
        timeout(Duration::from_secs(30), reader_gone(pipe.as_fd()))
            .await
            .unwrap();
        let file = tempfile::tempfile().unwrap();
        timeout(soon, reader_gone(file.as_fd())).await.unwrap_err();
    }
}
