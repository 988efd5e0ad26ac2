//! Texts of one line, which kubexm writes into configuration files, units and command lines.

use super::{InvalidValue, text_value};

/// A text of 1 to 4096 characters without line breaks, control characters and characters that change the direction
/// of text. In a file of lines it cannot begin another line, and a terminal shows it as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(String);

/// Maximum number of characters of a [`Line`].
const LONGEST: usize = 4096;

/// Returns true for control characters, for the line breaks of Unicode (U+2028 and U+2029), and for characters that
/// change the direction of text (<https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters>).
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Line {
    /// Parses a text of one line.
    ///
    /// # Errors
    /// The text is empty, has more than 4096 characters, or contains a character that [`is_hidden`].
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        check(text).map_err(|reason| InvalidValue::new("text", text, reason))?;
        match text {
            "" => Err(InvalidValue::new("text", text, "is empty")),
            text => Ok(Self(text.to_owned())),
        }
    }
}

/// Returns why a text, which may be empty, does not fit into one line.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if text.chars().any(is_hidden) {
        let reason = "expected one line without control characters; remove line breaks and tabs";
        return Err(reason.to_owned());
    }
    match text.chars().nth(LONGEST) {
        Some(_) => Err(format!("is longer than {LONGEST} characters")),
        None => Ok(()),
    }
}

text_value!(Line);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_several_lines_is_refused() {
        for good in ["kubernetes", "a: b", "\"q\" 'q' \\ % $ `x`", "größer"] {
            assert!(Line::parse(good).is_ok(), "{good}");
        }
        let long = "a".repeat(LONGEST + 1);
        for wrong in [
            "",
            "a\nb",
            "a\n",
            "a\rb",
            "a\tb",
            "a\0",
            "a\u{85}b",
            "a\u{2028}b",
            "\u{202e}a",
            "\u{1b}[31m",
            &long,
        ] {
            assert!(Line::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
