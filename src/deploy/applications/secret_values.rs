//! Which values of a revision are secret: a label of the revision says so by digests of their paths. A comparison with the next
//! values then hides them, also where a value is plain now.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kubexm_types::Digest;
use serde_json::Value;

/// The number of hexadecimal digits of the digest of a path.
const DIGITS: usize = 8;
/// The most paths of a label, which has at most 63 characters.
const MOST: usize = 7;
/// The label of a revision without secret values.
const NONE: &str = "none";
/// The label of a revision with more of them than a label can have.
const MANY: &str = "many";

/// The secret values of a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SecretValues {
    /// Any value can be secret: kubexm has not created the revision, or it has many of them.
    #[default]
    Any,
    /// Those at the paths with these digests.
    At(BTreeSet<String>),
}

impl SecretValues {
    /// Returns those of values, of which `plain` are without secrets.
    pub(super) fn of(all: &Value, plain: &Value) -> Self {
        let mut found = BTreeSet::new();
        collect(all, plain, "", &mut found);
        if found.len() > MOST {
            return Self::Any;
        }
        Self::At(found)
    }

    /// Returns those of a label.
    pub(super) fn parse(label: Option<&str>) -> Self {
        match label {
            None | Some(MANY) => Self::Any,
            Some(NONE) => Self::At(BTreeSet::new()),
            Some(digests) => Self::At(digests.split('.').map(str::to_owned).collect()),
        }
    }

    pub(super) fn label(&self) -> String {
        match self {
            Self::Any => MANY.to_owned(),
            Self::At(digests) if digests.is_empty() => NONE.to_owned(),
            Self::At(digests) => digests
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("."),
        }
    }

    /// Returns whether no value is secret.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::At(digests) if digests.is_empty())
    }

    /// Returns whether the value at a path can be secret.
    pub(super) fn has(&self, path: &str) -> bool {
        match self {
            Self::Any => true,
            Self::At(digests) => digests.contains(&digest(path)),
        }
    }
}

/// Returns the text of a field of a Secret. Its base64 can have line breaks.
pub(super) fn decoded(field: &str) -> Option<String> {
    let field: String = field.split_whitespace().collect();
    String::from_utf8(BASE64_STANDARD.decode(field).ok()?).ok()
}

/// Returns the path of a field in the mapping with this path.
pub(super) fn field(path: &str, name: &str) -> String {
    // No name of a field contains the separator.
    format!("{path}\0{name}")
}

fn digest(path: &str) -> String {
    Digest::of(path.as_bytes())
        .hex()
        .chars()
        .take(DIGITS)
        .collect()
}

fn collect(all: &Value, plain: &Value, path: &str, found: &mut BTreeSet<String>) {
    match (all, plain) {
        (Value::Object(all), _) if plain.is_object() || plain.is_null() => {
            for (name, value) in all {
                collect(value, &plain[name.as_str()], &field(path, name), found);
            }
        }
        _ if all == plain => {}
        _ => _ = found.insert(digest(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn label_says_which_values_are_secret() {
        let all = json!({"a": {"b": "sesame", "c": 1}, "file": {"d": ["x"]}, "e": "plain"});
        let plain = json!({"a": {"b": "hidden", "c": 1}, "e": "plain"});
        let values = SecretValues::of(&all, &plain);
        let label = values.label();
        assert_eq!(SecretValues::parse(Some(&label)), values, "{label}");
        let path = |names: &[&str]| {
            names
                .iter()
                .fold(String::new(), |path, name| field(&path, name))
        };
        assert!(values.has(&path(&["a", "b"])) && values.has(&path(&["file", "d"])));
        assert!(!values.has(&path(&["a", "c"])) && !values.has(&path(&["e"])));
        let none = SecretValues::of(&plain, &plain);
        assert!(none.is_empty() && !none.has(&path(&["e"])));
        assert_eq!(SecretValues::parse(Some(&none.label())), none);
        assert!(SecretValues::parse(None).has(&path(&["e"])));
        let many: Value = (0..20)
            .map(|at| (format!("a{at}"), Value::from("x")))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let many = SecretValues::of(&many, &Value::Null);
        assert_eq!(SecretValues::parse(Some(&many.label())), SecretValues::Any);
        let seven: Value = (0..MOST)
            .map(|at| (format!("a{at}"), Value::from("x")))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let label = SecretValues::of(&seven, &Value::Null).label();
        assert_eq!(super::super::installed::label(&label), label);
    }
}
