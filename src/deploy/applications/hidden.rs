//! Secrets of an application, which messages and comparisons do not show.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kubexm_types::redacted::REPLACEMENT;
use serde_json::Value;

/// A shorter secret is only hidden where it is the whole text: it is part of too many others.
const SHORTEST: usize = 4;
/// A shorter secret is only hidden where it is a word: it can be part of names.
const CERTAIN: usize = 8;

/// The texts of secret values of an application.
pub struct Hidden {
    /// The longest first: one can be part of another.
    texts: Vec<String>,
}

impl Hidden {
    /// Creates a value that hides these texts.
    pub fn new(texts: BTreeSet<String>) -> Self {
        let mut texts: Vec<String> = texts.into_iter().collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self { texts }
    }

    /// Creates a value that hides values of an application. `plain` are those without secrets, and `former` are those of a revision.
    pub(super) fn of(all: &Value, plain: &Value, former: &Value) -> Self {
        Self::new(secrets(all, plain, former))
    }

    /// Returns whether a text is a secret.
    pub fn has(&self, text: &str) -> bool {
        self.texts.iter().any(|secret| secret == text)
    }

    /// Returns a text without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut shown = text.to_owned();
        for secret in &self.texts {
            if secret.len() >= CERTAIN {
                shown = shown.replace(secret.as_str(), REPLACEMENT);
            } else if secret.len() >= SHORTEST && !is_common(secret) {
                shown = without_word(&shown, secret);
            } else if shown == *secret {
                REPLACEMENT.clone_into(&mut shown);
            }
        }
        shown
    }
}

/// Returns whether a text is common in messages, also where it is not the secret.
fn is_common(text: &str) -> bool {
    ["true", "false", "null"].contains(&text)
}

/// Replaces a secret where no letter and no digit is beside it.
fn without_word(text: &str, secret: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(secret) {
        let (before, found) = rest.split_at(at);
        let (found, after) = found.split_at(secret.len());
        let is_part = before.ends_with(char::is_alphanumeric)
            || before.is_empty() && shown.ends_with(char::is_alphanumeric)
            || after.starts_with(char::is_alphanumeric);
        shown.push_str(before);
        shown.push_str(if is_part { found } else { REPLACEMENT });
        rest = after;
    }
    shown + rest
}

/// Returns the texts of values that differ from those without secrets, of the former values in their place, and of former values
/// that have gone, which may have been secret. It has their base64, their form in JSON, and the longer lines of texts.
fn secrets(all: &Value, plain: &Value, former: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(all, plain, former, &mut found);
    let encoded = found.iter().map(|text| BASE64_STANDARD.encode(text));
    let lines = found.iter().flat_map(|text| text.lines());
    let lines = lines.map(|line| line.trim().to_owned());
    let quoted = found.iter().map(|text| {
        let quoted = Value::from(text.as_str()).to_string();
        quoted.trim_matches('"').to_owned()
    });
    let more: Vec<String> = encoded
        .chain(quoted)
        .chain(lines.filter(|line| line.len() >= LONG_LINE))
        .collect();
    found.extend(more);
    found
}

/// A line of a text with several ones is a secret of its own from this length: templates indent and escape lines.
const LONG_LINE: usize = 8;

fn collect(all: &Value, plain: &Value, former: &Value, found: &mut BTreeSet<String>) {
    match (all, plain) {
        (Value::Object(all), Value::Object(plain)) => {
            for (name, value) in all {
                let plain = plain.get(name).unwrap_or(&Value::Null);
                collect(value, plain, &former[name], found);
            }
            let former = former.as_object().into_iter().flatten();
            let gone = former.filter(|(name, _)| !all.contains_key(*name));
            gone.for_each(|(_, value)| texts(value, found));
        }
        _ if all == plain => {}
        _ => {
            texts(all, found);
            texts(former, found);
        }
    }
}

fn texts(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if !text.trim().is_empty() => {
            found.insert(text.trim().to_owned());
            found.insert(text.clone());
        }
        Value::Number(number) => {
            found.insert(number.to_string());
        }
        Value::Array(values) => values.iter().for_each(|one| texts(one, found)),
        Value::Object(fields) => fields.values().for_each(|one| texts(one, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secret_values_and_their_predecessors_are_secret() {
        let all = json!({"a": {"b": "sesame", "c": 1}, "d": ["first line\nend\n"], "e": "plain", "f": {"g": 4711}});
        let plain = json!({"a": {"b": "hidden", "c": 1}, "e": "plain"});
        let former = json!({"a": {"b": "old", "c": 2}, "e": "other", "gone": "former"});
        let found = secrets(&all, &plain, &former);
        for text in [
            "sesame",
            "old",
            "former",
            "4711",
            "first line",
            "first line\nend",
            "first line\nend\n",
        ] {
            assert!(found.contains(text), "{text}");
            assert!(
                found.contains(&BASE64_STANDARD.encode(text)) || text == "first line",
                "{text}"
            );
        }
        let quoted = secrets(&json!("a\"b\\c"), &json!("hidden"), &Value::Null);
        assert!(quoted.contains(r#"a\"b\\c"#), "{quoted:?}");
        for text in ["plain", "other", "1", "2", "end"] {
            assert!(!found.contains(text), "{text}");
        }
    }
}
