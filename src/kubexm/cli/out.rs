//! Standard output that may go away: `kubexm bundle list B | head -1` is no reason to panic.

use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use kubexm_types::event::Events;

/// Set where standard output is for events alone.
static EVENTS: OnceLock<Events> = OnceLock::new();

/// From now on what is said becomes notes among the events, which are all that standard output gets.
pub fn as_notes(events: &Events) {
    // Nobody calls it twice.
    let _ = EVENTS.set(events.clone());
}

/// Writes text as it is. A reader that went away misses the rest; work that goes on is not stopped
/// for it. Any other failure, such as a full disk behind `>`, ends the program with exit code 1:
/// half an output must not pass for a whole one.
pub fn text(text: &str) {
    if let Some(events) = EVENTS.get() {
        return events.note(text.trim_end());
    }
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // Standard error may be gone, too.
            let _ = writeln!(
                std::io::stderr(),
                "error: standard output cannot be written: {error}"
            );
            std::process::exit(1);
        }
        _ => {}
    }
}

/// Prints a line, as `println!` does, without its panic.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::cli::out::text(&format!("{}\n", format_args!($($argument)*)))
    };
}
pub(super) use say;
