//! Text from hosts, servers and files, made safe for terminals, the journal and JSON.
//!
//! [`Untrusted`] quotes such text in an error. [`message`] is the second line of defence: everything that
//! kubexm reports passes it, whether its parts were quoted or not.

use std::collections::VecDeque;
use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

use serde::{Serialize, Serializer};

/// The largest number of lines that are quoted of a text.
pub const LINES: usize = 20;
/// The largest number of characters that are quoted of a line.
pub const COLUMNS: usize = 300;
/// The largest number of lines of a message.
const MESSAGE_LINES: usize = 400;
/// The number of lines at the end of a message that are never left out: they contain the hint.
const MESSAGE_END: usize = 20;
/// The largest number of characters in a line of a message.
const MESSAGE_COLUMNS: usize = 2000;
/// The largest number of characters of an escape sequence with a text, such as the title of a window.
const LONGEST_SEQUENCE: usize = 4096;

/// A text that a host, a server or a file provided, as kubexm may show it: at most [`LINES`] lines of at most
/// [`COLUMNS`] characters, without blank lines, without escape sequences and without invisible characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Untrusted(String);

impl Untrusted {
    /// Quotes the first lines of a text.
    pub fn first(text: &str) -> Self {
        let mut lines = lines(text).map(|line| cut(line, COLUMNS));
        let mut kept: Vec<String> = lines.by_ref().take(LINES).collect();
        if lines.next().is_some() {
            kept.pop();
            kept.push("…".to_owned());
        }
        Self(kept.join("\n"))
    }

    /// Quotes the last lines of a text. The last lines of a program's output contain the cause of its failure.
    pub fn last(text: &str) -> Self {
        let mut kept = VecDeque::new();
        for line in lines(text) {
            if kept.len() > LINES {
                kept.pop_front();
            }
            kept.push_back(line);
        }
        let left_out = kept.len() > LINES;
        let skip = if left_out { 2 } else { 0 };
        let mut quoted: Vec<String> = left_out.then(|| "…".to_owned()).into_iter().collect();
        quoted.extend(kept.iter().skip(skip).map(|line| cut(line, COLUMNS)));
        Self(quoted.join("\n"))
    }

    /// Quotes a text on one line of at most `columns` characters.
    pub fn one_line(text: &str, columns: usize) -> Self {
        // Line ends become spaces; no more than the shown characters are looked at.
        let characters = Printable::new(text).map(|c| if c == '\n' { ' ' } else { c });
        let mut line = String::new();
        for (at, c) in characters.enumerate() {
            if at == columns {
                line.push('…');
                break;
            }
            line.push(c);
        }
        Self(line.trim().to_owned())
    }

    /// Returns the text that is shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether nothing is left to show.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Untrusted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Returns whether a character controls a terminal, changes the direction of text, or is invisible. Line ends
/// and tabs are among them.
///
/// The ranges are the control characters (Cc), the format characters (Cf) without a glyph, the line and
/// paragraph separators, and the fillers that look like nothing (Default_Ignorable_Code_Point) of
/// <https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt>.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns a text without escape sequences and unprintable characters. Line ends and tabs stay, and a carriage
/// return becomes a line end. The length is not limited.
pub fn printable(text: &str) -> String {
    if text.chars().all(|c| c == '\n' || !is_unprintable(c)) {
        text.to_owned()
    } else {
        Printable::new(text).collect()
    }
}

/// Returns the lines of a text as [`printable`]. Text that kubexm puts before each of them, such as the name of a host, is
/// at the start of each line that a terminal shows.
pub fn printable_lines(text: &str) -> Vec<String> {
    printable(text).lines().map(str::to_owned).collect()
}

/// Returns a message of kubexm, which may quote a text from outside, as [`printable`] and with at most some
/// hundred lines of at most 2000 characters.
pub fn message(text: &str) -> String {
    if text.len() <= MESSAGE_COLUMNS && !text.contains(is_unprintable) {
        return text.to_owned();
    }
    let total = text.split('\n').count();
    let left_out = total.saturating_sub(MESSAGE_LINES);
    let mut out = String::new();
    for (at, line) in text.split('\n').enumerate() {
        let number = at + 1 + MESSAGE_END;
        if left_out > 0 && number > MESSAGE_LINES && number <= total {
            if number == MESSAGE_LINES + 1 {
                out.push_str(&format!("\n… {left_out} lines are left out"));
            }
            continue;
        }
        if at > 0 {
            out.push('\n');
        }
        // A carriage return before the line end is not a line end of its own.
        let line = line.strip_suffix('\r').unwrap_or(line);
        out.push_str(&cut(line, MESSAGE_COLUMNS));
    }
    out
}

/// Returns JSON text with `\u` escapes in place of unprintable characters, which can only be inside of strings.
/// The values do not change.
pub fn json(text: &str) -> String {
    let hidden = |c: char| is_unprintable(c) && c != '\n';
    if !text.contains(hidden) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !hidden(c) {
            out.push(c)
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// Returns the lines that are not blank. Terminals also start a line at a carriage return.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let ends = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
    text.split(ends).filter(|line| !line.trim().is_empty())
}

/// Returns the first characters of a line. Looks at no more of it than it shows.
fn cut(line: &str, columns: usize) -> String {
    let mut characters = Printable::new(line);
    let mut out: String = characters.by_ref().take(columns).collect();
    if characters.next().is_some() {
        out.push('…');
    }
    out
}

/// The printable characters of a text.
struct Printable<'a> {
    rest: Peekable<Chars<'a>>,
}

impl<'a> Printable<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars().peekable(),
        }
    }

    /// Skips an escape sequence (ECMA-48, section 5) after its first character.
    fn skip_sequence(&mut self, introducer: char) {
        match introducer {
            '[' => {
                while self.rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                self.rest.next_if(|c| matches!(c, '@'..='~'));
            }
            ']' | 'P' | 'X' | '^' | '_' => self.skip_string(),
            ' '..='/' => {
                while self.rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
                self.rest.next_if(|c| matches!(c, '0'..='~'));
            }
            _ => {}
        }
    }

    /// Skips a control string with its end: BEL, ESC \ or the single character ST. A string without an end on its
    /// line is text: only its introducer is skipped.
    fn skip_string(&mut self) {
        let mut ahead = self.rest.clone();
        for _ in 0..LONGEST_SEQUENCE {
            match ahead.next() {
                None | Some('\n' | '\r') => return,
                Some('\u{7}' | '\u{9c}') => break,
                Some('\u{1b}') => {
                    ahead.next_if_eq(&'\\');
                    break;
                }
                Some(_) => {}
            }
        }
        self.rest = ahead;
    }
}

impl Iterator for Printable<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            match self.rest.next()? {
                '\u{1b}' => {
                    if let Some(introducer) = self.rest.next_if(|c| matches!(c, ' '..='~')) {
                        self.skip_sequence(introducer);
                    }
                }
                '\u{9b}' => self.skip_sequence('['),
                '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.skip_sequence(']'),
                '\r' => {
                    self.rest.next_if_eq(&'\n');
                    return Some('\n');
                }
                '\u{85}' | '\u{2028}' | '\u{2029}' => return Some('\n'),
                c @ ('\n' | '\t') => return Some(c),
                c if is_unprintable(c) => {}
                c => return Some(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The title of the window, a cleared screen, a colour, the direction of text.
    const HOSTILE: &str = "\u{1b}]0;PWNED\u{7}\u{1b}[2J\u{1b}[31m all is\u{202e} well\u{9b}31m";

    #[test]
    fn sequences_and_invisible_characters_are_removed() {
        for (text, shown) in [
            (HOSTILE, " all is well"),
            ("10%\r20%\r\nend\tx", "10%\n20%\nend\tx"),
            ("\u{1b}Ptmux;\u{1b}\\a\u{1b}(Bb\u{1b}cc\u{1b}", "abc"),
            ("\u{9d}0;title\u{9c}a\u{8}b\u{7f}", "ab"),
            // A string without an end hides nothing.
            (
                "\u{1b}]0;all that follows\nnext",
                "0;all that follows\nnext",
            ),
            ("a\u{200b}\u{2066}\u{feff}\u{e0041}\u{ad}b", "ab"),
            ("plain ä 漢 → “quoted”", "plain ä 漢 → “quoted”"),
        ] {
            assert_eq!(printable(text), shown, "{text:?}");
            assert_eq!(message(text), shown, "{text:?}");
        }
    }

    #[test]
    fn every_line_that_a_terminal_shows_is_a_line() {
        let text = "a\rb\u{85}c\u{2028}d\u{2029}e\r\nf\n";
        assert_eq!(printable_lines(text), ["a", "b", "c", "d", "e", "f"]);
        // What is left has no other line ends.
        for line in printable_lines(text) {
            assert_eq!(printable(&line), line);
        }
        assert!(printable_lines("").is_empty());
    }

    #[test]
    fn quoted_text_has_at_most_20_lines_of_300_characters() {
        let long = "x".repeat(20_000_000);
        for quoted in [Untrusted::first(&long), Untrusted::last(&long)] {
            assert_eq!(quoted.as_str().chars().count(), COLUMNS + 1);
        }
        let many: String = (0..200_000).map(|n| format!("line {n}\n\n\r")).collect();
        let first = Untrusted::first(&many);
        let last = Untrusted::last(&many);
        assert_eq!(first.as_str().lines().count(), LINES);
        assert!(first.as_str().starts_with("line 0\nline 1\n"), "{first}");
        assert_eq!(last.as_str().lines().count(), LINES);
        assert!(
            last.as_str().ends_with("line 199998\nline 199999"),
            "{last}"
        );
        assert_eq!(Untrusted::last("a\n\nb\n").as_str(), "a\nb");
        assert_eq!(Untrusted::one_line("a\r\nb\u{1b}[1m", 10).as_str(), "a b");
        assert_eq!(Untrusted::one_line("abcdef", 3).as_str(), "abc…");
    }

    #[test]
    fn messages_are_limited_and_keep_their_first_and_last_lines() {
        let blobs: String = (0..200_000).map(|n| format!("  blob {n}\n")).collect();
        let text = message(&format!("bundle is damaged:\n{blobs}hint: copy it again"));
        assert!(text.starts_with("bundle is damaged:\n  blob 0\n"), "{text}");
        assert!(text.ends_with("blob 199999\nhint: copy it again"), "{text}");
        assert!(text.contains("\n… 199602 lines are left out\n"), "{text}");
        assert_eq!(text.lines().count(), MESSAGE_LINES + 1);
        let line = message(&"y".repeat(20_000_000));
        assert_eq!(line.chars().count(), MESSAGE_COLUMNS + 1);
        let own = "error\n  indented\n\n\tlast\n";
        assert_eq!(message(own), own);
    }

    #[test]
    fn json_keeps_its_values() {
        let value = serde_json::json!({"a": HOSTILE, "b": "\u{e0041}\u{7f}\u{85}"});
        let text = json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(
            !text.contains(|c| is_unprintable(c) && c != '\n'),
            "{text:?}"
        );
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, value);
    }
}
