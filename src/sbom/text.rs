//! Texts of strangers, fit for a document and for a terminal.

/// No name, version or licence is longer.
const LONGEST: usize = 512;

/// A text on one line without what could command a terminal.
pub fn clean(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let fit = text.chars().filter(|c| !c.is_control() && !turns(*c));
    fit.take(LONGEST).collect::<String>().trim().to_owned()
}
