//! The files that Helm leaves out of a chart: `.helmignore` (<https://helm.sh/docs/chart_template_guide/helm_ignore_file/>).

use kubexm_types::Message;

/// The name of the file, in the directory of the chart.
pub(super) const NAME: &str = ".helmignore";
/// The rule that Helm adds to those of each chart: hidden files below the templates.
const OF_HELM: &str = "templates/.?*";

/// The rules of a chart, in the order of the file.
pub(super) struct Rules(Vec<Rule>);

struct Rule {
    pattern: Vec<char>,
    place: Place,
    /// Only directories match.
    is_of_directories: bool,
    /// Everything matches that the pattern does not.
    is_negated: bool,
}

/// What the pattern describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The path from the directory of the chart.
    Path,
    /// The last part of the path.
    Name,
}

impl Rules {
    /// Parses the text of the file.
    ///
    /// # Errors
    /// A line has a pattern that Helm refuses.
    pub(super) fn parse(text: &str) -> Result<Self, Message> {
        // As Helm, which ignores a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut rules = Vec::new();
        for (number, line) in lines.chain([(0, OF_HELM)]) {
            let refused = |reason: &str| {
                let text = format!("{NAME}:{}: '{line}' {reason}", number + 1);
                Message::new(text).hint("correct the pattern; Helm refuses it, too")
            };
            if line.contains("**") {
                return Err(refused("has '**', which is not supported"));
            }
            let rule = Rule::new(line);
            if !is_valid(&rule.pattern) {
                return Err(refused("has a bracket or an escape that does not end"));
            }
            rules.push(rule);
        }
        Ok(Self(rules))
    }

    /// Returns whether Helm leaves out a file or a directory. `path` is relative to the directory of the chart.
    pub(super) fn leave_out(&self, path: &str, is_directory: bool) -> bool {
        self.0.iter().any(|rule| rule.matches(path, is_directory))
    }
}

impl Rule {
    fn new(line: &str) -> Self {
        let (is_negated, line) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (is_of_directories, line) = match line.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let place = if line.contains('/') {
            Place::Path
        } else {
            Place::Name
        };
        Self {
            pattern: line.strip_prefix('/').unwrap_or(line).chars().collect(),
            place,
            is_of_directories,
            is_negated,
        }
    }

    fn matches(&self, path: &str, is_directory: bool) -> bool {
        if self.is_of_directories && !is_directory {
            return self.is_negated;
        }
        let text = match self.place {
            Place::Path => path,
            Place::Name => path.rsplit('/').next().unwrap_or(path),
        };
        let text: Vec<char> = text.chars().collect();
        is_match(&self.pattern, &text) != self.is_negated
    }
}

/// Returns whether a text matches a pattern (<https://pkg.go.dev/path/filepath#Match>).
fn is_match(pattern: &[char], text: &[char]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return text.is_empty();
    };
    if *first == '*' {
        let name = text.iter().take_while(|one| **one != '/').count();
        return (0..=name).any(|count| is_match(rest, &text[count..]));
    }
    let Some((one, after)) = text.split_first() else {
        return false;
    };
    match first {
        '?' => *one != '/' && is_match(rest, after),
        '[' => {
            let Some((class, rest)) = class(rest) else {
                return false;
            };
            class.has(*one) && is_match(rest, after)
        }
        '\\' => {
            let Some((escaped, rest)) = rest.split_first() else {
                return false;
            };
            escaped == one && is_match(rest, after)
        }
        _ => first == one && is_match(rest, after),
    }
}

/// Characters in brackets.
struct Class {
    ranges: Vec<(char, char)>,
    is_negated: bool,
}

impl Class {
    fn has(&self, one: char) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|(low, high)| (*low..=*high).contains(&one)) != self.is_negated
    }
}

/// Reads a class after its `[`. Returns it, and the rest of the pattern; `None` if it does not end.
fn class(mut rest: &[char]) -> Option<(Class, &[char])> {
    let is_negated = rest.first() == Some(&'^');
    if is_negated {
        rest = &rest[1..];
    }
    let mut ranges = Vec::new();
    loop {
        if let [']', after @ ..] = rest
            && !ranges.is_empty()
        {
            return Some((Class { ranges, is_negated }, after));
        }
        let (low, after) = member(rest)?;
        let (high, after) = match after {
            ['-', after @ ..] => member(after)?,
            _ => (low, after),
        };
        ranges.push((low, high));
        rest = after;
    }
}

/// Reads a character of a class.
fn member(rest: &[char]) -> Option<(char, &[char])> {
    match rest {
        ['\\', one, after @ ..] => Some((*one, after)),
        ['\\' | '-' | ']', ..] | [] => None,
        [one, after @ ..] => Some((*one, after)),
    }
}

fn is_valid(mut pattern: &[char]) -> bool {
    while let Some((first, rest)) = pattern.split_first() {
        pattern = match first {
            '[' => match class(rest) {
                Some((_, rest)) => rest,
                None => return false,
            },
            '\\' => match rest.split_first() {
                Some((_, rest)) => rest,
                None => return false,
            },
            _ => rest,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `filepath.Match` of Go documents it.
    #[test]
    fn patterns_match_within_a_directory() {
        for (pattern, yes, no) in [
            ("*.key", "a.key b/.key", "a.keys key"),
            ("/*.key", "a.key", "b/a.key"),
            ("a/*", "a/b", "a a/b/c b/a/b"),
            ("a?c", "abc x/abc", "ac a/c"),
            ("[a-c][^0-9]", "ax cz", "a1 dx a"),
            ("\u{feff}a", "a", "b"),
            ("a\\*", "a*", "ab"),
            ("[\\]x]", "] x", "a"),
            ("!*.yaml", "a b/c.txt", "a.yaml b/a.yaml"),
        ] {
            let rules = Rules::parse(pattern).unwrap();
            for (texts, expected) in [(yes, true), (no, false)] {
                for text in texts.split(' ') {
                    assert_eq!(rules.leave_out(text, false), expected, "{pattern} {text}");
                }
            }
        }
        let rules = Rules::parse("  ci/  \n# x\n").unwrap();
        assert!(rules.leave_out("a/ci", true) && !rules.leave_out("ci", false));
        for wrong in ["**/a", "[a", "a\\", "[]", "[a-]"] {
            assert!(Rules::parse(wrong).is_err(), "{wrong}");
        }
    }
}
