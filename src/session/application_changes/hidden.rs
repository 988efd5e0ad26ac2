//! Objects without the secrets of an application.

use kubexm_deploy::Hidden;
use kubexm_types::redacted::REPLACEMENT;
use serde_json::Value;

/// Fields of a Secret that have no secret.
const SHOWN: [&str; 4] = ["apiVersion", "kind", "metadata", "type"];
/// `kubectl apply` keeps the whole object here.
const APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
/// Follows a hidden text that replaces another one.
const CHANGED: &str = " (changed)";

/// Hides secrets in an object that replaces another one, or in one that is replaced by nothing. The content of a Secret is
/// secret as a whole.
pub(super) fn hide(hidden: &Hidden, object: &mut Value, former: Option<&Value>) {
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
            replace(field, former, &|value| without(hidden, value));
        }
    }
}

fn without(hidden: &Hidden, value: &Value) -> Value {
    match value {
        Value::String(text) => hidden.text(text).into(),
        Value::Number(number) if hidden.has(&number.to_string()) => REPLACEMENT.into(),
        other => other.clone(),
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
