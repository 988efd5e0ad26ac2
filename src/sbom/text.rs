//! Sanitizes untrusted texts for documents and terminals.

use kubexm_types::untrusted::is_unprintable;

/// Maximum length of a name, version or licence, in characters.
const LONGEST: usize = 512;

/// Returns a text on one line without control characters and invisible characters.
pub fn clean(text: &str) -> String {
    let allowed = text.chars().filter(|c| !is_unprintable(*c));
    allowed.take(LONGEST).collect::<String>().trim().to_owned()
}
