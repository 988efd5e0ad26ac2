//! Standard output that may go away: `kubexm bundle list B | head -1` is no reason to panic.

use std::io::{ErrorKind, Write};

/// Writes text as it is. A reader that went away misses the rest; work that goes on is not stopped
/// for it. Any other failure, such as a full disk behind `>`, ends the program with exit code 1:
/// half an output must not pass for a whole one.
pub fn text(text: &str) {
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
