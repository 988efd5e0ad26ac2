//! Secrets of an application, which messages and comparisons do not show.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kubexm_types::redacted::REPLACEMENT;
use serde_json::Value;

use super::object::ManifestObject;
use super::secret_values::{SecretValues, decoded, field};
use super::stored::StoredRelease;

/// A shorter secret is only hidden where it is the whole text: it is part of too many others.
const SHORTEST: usize = 4;
/// A shorter secret is only hidden where it is a word: it can be part of names, as `postgres` of `postgresql`.
const CERTAIN: usize = 16;
/// A shorter content of a Secret is shown in other objects: it can be the name of one.
const OF_SECRETS: usize = 8;

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

    /// Creates a value that hides values of an application, of which `plain` are without secrets, and those of a former revision.
    pub(super) fn of(all: &Value, plain: &Value, former: Option<&StoredRelease>) -> Self {
        let none = StoredRelease::default();
        let former = former.unwrap_or(&none);
        Self::new(secrets(all, plain, (&former.values, &former.secrets)))
    }

    /// Hides all texts of a value, too.
    #[must_use]
    pub(super) fn and(self, secret: &Value) -> Self {
        let nothing = (&Value::Null, &SecretValues::default());
        let mut texts = secrets(secret, &Value::Null, nothing);
        texts.extend(self.texts);
        Self::new(texts)
    }

    /// Hides the contents of Secrets, too, where another object has them.
    #[must_use]
    pub fn with_secrets<'a>(&self, objects: impl Iterator<Item = &'a ManifestObject>) -> Self {
        let mut found = BTreeSet::new();
        for object in objects.filter(|object| object.is_secret()) {
            texts(&object.value["stringData"], &mut found);
            let fields = object.value["data"].as_object().into_iter().flatten();
            found.extend(fields.filter_map(|(_, value)| decoded(value.as_str()?)));
        }
        let mut all = with_forms(found);
        // A shorter one is in names of objects.
        all.retain(|text| text.trim().len() >= OF_SECRETS);
        all.extend(self.texts.iter().cloned());
        Self::new(all)
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
fn secrets(
    all: &Value,
    plain: &Value,
    (former, secret): (&Value, &SecretValues),
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let values = Values { all, plain, former };
    collect(&values, secret, "", &mut found);
    with_forms(found)
}

/// Adds the other forms of texts.
fn with_forms(mut found: BTreeSet<String>) -> BTreeSet<String> {
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

/// Values of an application at a path.
struct Values<'a> {
    all: &'a Value,
    /// Without secrets.
    plain: &'a Value,
    /// Those of a former revision.
    former: &'a Value,
}

fn collect(values: &Values<'_>, secret: &SecretValues, path: &str, found: &mut BTreeSet<String>) {
    let Values { all, plain, former } = *values;
    match (all, plain) {
        (Value::Object(all), Value::Object(plain)) => {
            for (name, all) in all {
                let plain = plain.get(name).unwrap_or(&Value::Null);
                let former = &former[name.as_str()];
                let values = Values { all, plain, former };
                collect(&values, secret, &field(path, name), found);
            }
            if !former.is_object() {
                were_secret(former, secret, path, found);
            }
            let former = former.as_object().into_iter().flatten();
            let gone = former.filter(|(name, _)| !all.contains_key(*name));
            gone.for_each(|(_, value)| texts(value, found));
        }
        _ if all == plain => {
            // Without a record, a value that does not change is plain.
            if all != former || *secret != SecretValues::Any {
                were_secret(former, secret, path, found);
            }
        }
        _ => {
            texts(all, found);
            texts(former, found);
        }
    }
}

/// Finds the texts of former values that were secret.
fn were_secret(former: &Value, secret: &SecretValues, path: &str, found: &mut BTreeSet<String>) {
    if secret.has(path) {
        texts(former, found);
    } else if let Value::Object(fields) = former {
        for (name, value) in fields {
            were_secret(value, secret, &field(path, name), found);
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
        let none = SecretValues::of(&plain, &plain);
        let found = secrets(&all, &plain, (&former, &none));
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
        let quoted = secrets(&json!("a\"b\\c"), &json!("hidden"), (&Value::Null, &none));
        assert!(quoted.contains(r#"a\"b\\c"#), "{quoted:?}");
        for text in ["plain", "other", "1", "2", "end"] {
            assert!(!found.contains(text), "{text}");
        }
    }

    #[test]
    fn secret_that_can_be_part_of_a_name_is_hidden_as_a_word() {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
            "data": {"a": "cG9zd\nGdyZXM=\n", "b": BASE64_STANDARD.encode("a-much-longer-secret"), "c": BASE64_STANDARD.encode("web")},
        });
        let resources = super::super::resources::Resources::default();
        let objects = ManifestObject::parse(&object.to_string(), "one", &resources).unwrap();
        let hidden = Hidden::new(BTreeSet::new()).with_secrets(objects.iter());
        let shown =
            hidden.text("password=postgres image bitnami/postgresql:16 xa-much-longer-secretx web");
        assert_eq!(
            shown,
            "password=[redacted] image bitnami/postgresql:16 x[redacted]x web"
        );
    }

    #[test]
    fn value_that_was_secret_and_becomes_plain_is_secret() {
        let plain = json!({"a": {"b": "public"}, "c": "other", "d": {"e": "1"}});
        let former = json!({"a": {"b": "sesame"}, "c": "text", "d": "key"});
        let hidden = json!({"a": {"b": "hidden"}, "c": "text", "d": "hidden"});
        let label = SecretValues::of(&former, &hidden);
        let found = secrets(&plain, &plain, (&former, &label));
        assert!(
            found.contains("sesame") && found.contains("key"),
            "{found:?}"
        );
        assert!(
            !found.contains("text") && !found.contains("other"),
            "{found:?}"
        );
        // An earlier version of kubexm, or Helm alone, has created the revision.
        let found = secrets(&plain, &plain, (&former, &SecretValues::Any));
        assert!(
            found.contains("sesame") && found.contains("text"),
            "{found:?}"
        );
    }
}
