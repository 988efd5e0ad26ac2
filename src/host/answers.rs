//! What scripts print that ask a host many things: lines `key=value`, of which a host decides how many there are.

use std::collections::BTreeMap;

use kubexm_types::untrusted::Untrusted;

/// What a script printed, by key.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Answers(BTreeMap<&'static str, Vec<String>>);

impl Answers {
    /// Parses the output of a script.
    ///
    /// # Errors
    /// A line has another form or an unknown key, or the last line is missing.
    pub fn parse(text: &str, keys: &'static [&'static str]) -> Result<Self, String> {
        let mut answers = Self::default();
        let mut is_complete = false;
        for line in text.lines() {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            if key == "end" {
                is_complete = true;
                continue;
            }
            let Some(key) = keys.iter().find(|known| **known == key) else {
                let line = Untrusted::one_line(line, 100);
                return Err(format!("the answer has an unexpected line '{line}'"));
            };
            let values = answers.0.entry(*key).or_default();
            values.push(value.trim_end().to_owned());
        }
        if is_complete {
            Ok(answers)
        } else {
            Err("the answer is incomplete: its end is missing".to_owned())
        }
    }

    /// Adds the answers of another script.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns all values of a key.
    pub fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the first value of a key that is not empty.
    pub fn one(&self, key: &str) -> Option<&str> {
        let mut values = self.all(key).iter().map(String::as_str);
        values.find(|value| !value.is_empty())
    }

    /// Returns the rest of the value of a key that begins with this word.
    pub fn word(&self, key: &str, word: &str) -> Option<&str> {
        let values = self
            .all(key)
            .iter()
            .filter_map(|value| value.split_once(' '));
        let mut rests = values.filter_map(|(first, rest)| (first == word).then_some(rest));
        rests.find(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] = &["ntp", "sysctl", "swap"];

    #[test]
    fn values_are_read_by_key() {
        let text = "ntp=yes\nsysctl=net/ipv4/ip_forward 1\nsysctl=other 2\nsysctl=last \nend=\n";
        let answers = Answers::parse(text, KEYS).unwrap();
        assert_eq!(answers.one("ntp"), Some("yes"));
        assert_eq!(answers.word("sysctl", "other"), Some("2"));
        assert_eq!(answers.word("sysctl", "last"), None);
        assert_eq!(answers.all("swap"), [""; 0]);
    }

    #[test]
    fn other_lines_and_missing_ends_are_errors() {
        for text in ["", "ntp=yes\n", "evil=1\nend=\n", "way=x ok\nend=\n"] {
            assert!(Answers::parse(text, KEYS).is_err(), "{text}");
        }
    }
}
