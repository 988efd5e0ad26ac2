//! Sanitizes untrusted texts for documents and terminals.

/// Maximum length of a name, version or licence, in characters.
const LONGEST: usize = 512;

/// Returns a text on one line without control characters and characters that change the direction of text.
pub fn clean(text: &str) -> String {
    let is_direction = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let allowed = text
        .chars()
        .filter(|c| !c.is_control() && !is_direction(*c));
    allowed.take(LONGEST).collect::<String>().trim().to_owned()
}
