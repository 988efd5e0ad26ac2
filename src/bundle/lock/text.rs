//! Texts in a lock. They go to terminals, into file names and into archives that root unpacks on hosts.

/// The longest text in bytes.
const LONGEST: usize = 255;

/// Checks a text that is one part of a path and is printed.
pub(crate) fn name(what: &str, text: &str) -> Result<(), String> {
    let odd = |c: char| c.is_control() || c == '/' || c == '\\' || c.is_whitespace();
    if text.is_empty() || text.len() > LONGEST || text.starts_with('.') || text.contains(odd) {
        return Err(implausible(what, text));
    }
    Ok(())
}

/// Returns whether a text contains nothing that controls a terminal.
pub(crate) fn is_printable(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && !text.contains(char::is_control)
}

/// Returns the error for a text that no lock of kubexm contains.
pub(crate) fn implausible(what: &str, text: &str) -> String {
    let shown: String = text
        .chars()
        .take(80)
        .flat_map(char::escape_default)
        .collect();
    format!("its lock has a {what} '{shown}' that cannot be; do not use it")
}
