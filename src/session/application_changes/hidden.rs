//! Secrets of an application, which comparisons do not show.

use std::collections::BTreeSet;

use kubexm_types::redacted::REPLACEMENT;
use serde_json::Value;

/// A shorter secret is only hidden where it is the whole text: it is part of too many others.
const SHORTEST: usize = 4;
/// Fields of a Secret that have no secret.
const SHOWN: [&str; 4] = ["apiVersion", "kind", "metadata", "type"];
/// `kubectl apply` keeps the whole object here.
const APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
/// Follows a hidden text that replaces another one.
const CHANGED: &str = " (changed)";

/// The texts of secret values of an application.
pub(crate) struct Hidden {
    /// The longest first: one can be part of another.
    texts: Vec<String>,
}

impl Hidden {
    pub(crate) fn new(texts: BTreeSet<String>) -> Self {
        let mut texts: Vec<String> = texts.into_iter().collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self { texts }
    }

    /// Hides secrets in an object that replaces another one, or in one that is replaced by nothing. The content of a Secret is
    /// secret as a whole.
    pub(super) fn hide(&self, object: &mut Value, former: Option<&Value>) {
        let is_secret = object["kind"] == "Secret";
        if let Some(applied) = object.pointer_mut(APPLIED) {
            *applied = REPLACEMENT.into();
        }
        let Value::Object(fields) = object else {
            return;
        };
        for (name, field) in fields {
            let former = former.and_then(|former| former.get(name));
            if is_secret && !SHOWN.contains(&name.as_str()) {
                replace(field, former, &|_| REPLACEMENT.into());
            } else {
                replace(field, former, &|value| self.without(value));
            }
        }
    }

    fn without(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Number(number) if self.texts.contains(&number.to_string()) => REPLACEMENT.into(),
            other => other.clone(),
        }
    }

    /// Returns a text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut shown = text.to_owned();
        for secret in &self.texts {
            if secret.len() >= SHORTEST {
                shown = shown.replace(secret.as_str(), REPLACEMENT);
            } else if shown == *secret {
                REPLACEMENT.clone_into(&mut shown);
            }
        }
        shown
    }
}

/// Replaces what is neither a list nor a mapping. A value that differs from the former one only in what is hidden is marked.
fn replace(value: &mut Value, former: Option<&Value>, shown: &dyn Fn(&Value) -> Value) {
    match value {
        Value::Array(values) => {
            for (at, value) in values.iter_mut().enumerate() {
                replace(value, former.and_then(|former| former.get(at)), shown);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                replace(value, former.and_then(|former| former.get(name)), shown);
            }
        }
        _ => {
            let new = shown(value);
            let is_changed = former.is_some_and(|former| former != value && shown(former) == new);
            *value = match new {
                Value::String(text) if is_changed => (text + CHANGED).into(),
                new => new,
            };
        }
    }
}
