//! Parts of private keys whose first line is not in the text, as in the last lines of a log.

/// The least characters of a line of base64. PEM has 64 of them in each line but the last.
const LEAST: usize = 40;

/// The lines before that can be the body of a private key.
#[derive(Default)]
pub(super) struct KeyBody {
    /// Where the first of them begins in the output, and how many there are.
    start: Option<(usize, usize)>,
    /// Where the line before begins, if it can be the last one of a body.
    last: Option<usize>,
    /// The lines have a first one, such as that of a certificate.
    is_named: bool,
}

impl KeyBody {
    /// Looks at the next line, which begins at `at` in the output. If the body of a private key ends there or before, returns where
    /// the body begins, and whether the line is a part of it.
    pub(super) fn ended(&mut self, line: &str, at: usize) -> Option<(usize, bool)> {
        let last = self.last.take();
        if line.contains("-----END ") && !line.contains("-----BEGIN ") {
            let body = self.start.take().map(|(start, _)| start).or(last);
            let is_named = std::mem::take(&mut self.is_named);
            let is_private = line.contains("PRIVATE KEY") && !is_named;
            return body.filter(|_| is_private).map(|start| (start, true));
        }
        let before = self.is_open();
        if line.contains("-----BEGIN ") {
            self.is_named = !line.contains("-----END ");
        } else if !self.is_named && is_base64(line) {
            let (start, lines) = self.start.unwrap_or((at, 0));
            self.start = Some((start, lines + 1));
            return None;
        } else if !self.is_named && is_short(line) {
            // The last line of a body.
            let start = self.start.take().map_or(at, |(start, _)| start);
            self.last = Some(start);
            return before.map(|start| (start, true));
        }
        self.start = None;
        before.map(|start| (start, false))
    }

    /// Returns where a body begins that has several lines and no end.
    pub(super) fn is_open(&self) -> Option<usize> {
        self.start
            .filter(|(_, lines)| *lines > 1)
            .map(|(start, _)| start)
    }
}

/// Returns the last word of a line: programs put times and names in front of what they print.
fn last_word(line: &str) -> &str {
    line.rsplit([' ', '\t', '|']).next().unwrap_or_default()
}

fn is_base64(line: &str) -> bool {
    let word = last_word(line);
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let has = |is: fn(&char) -> bool| word.chars().any(|c| is(&c));
    // A digest has no large letters, and a path begins with a slash.
    word.len() >= LEAST
        && !word.starts_with('/')
        && word.chars().all(is_part)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_digit)
}

/// Returns whether a line can be the last one of base64, or the sum behind it in a block of PGP.
fn is_short(line: &str) -> bool {
    let word = last_word(line);
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let is_sum = word.starts_with('=') && word.len() == 5;
    let is_end = word.len().is_multiple_of(4)
        && (word.ends_with('=') || word.chars().any(|c| c.is_ascii_uppercase()));
    (is_sum || is_end) && word.chars().all(is_part)
}
