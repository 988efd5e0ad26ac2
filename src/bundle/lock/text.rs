//! Checks of texts in a lock. They appear on terminals, in file names and in archives that root unpacks on
//! hosts.

use kubexm_types::Message;

/// Maximum length of a text in bytes.
const LONGEST: usize = 255;

/// Checks a text that is one part of a path and is printed.
pub(crate) fn name(what: &str, text: &str) -> Result<(), Message> {
    let odd = |c: char| c.is_control() || c == '/' || c == '\\' || c.is_whitespace();
    if text.is_empty() || text.len() > LONGEST || text.starts_with('.') || text.contains(odd) {
        return Err(invalid(what, text));
    }
    Ok(())
}

/// Returns whether a text contains nothing that controls a terminal.
pub(crate) fn is_printable(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && !text.contains(char::is_control)
}

/// Returns the error for a text that the format does not allow.
pub(crate) fn invalid(what: &str, text: &str) -> Message {
    let shown: String = text
        .chars()
        .take(80)
        .flat_map(char::escape_default)
        .collect();
    Message::new(format!("its lock has an invalid {what} '{shown}'")).hint("do not use this bundle")
}
