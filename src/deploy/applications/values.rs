//! Values for the templates of a chart.

use serde_json::{Map, Value};

use crate::{DeployError, controller_file};
use kubexm_config::cluster::ApplicationValues;
use kubexm_render::RenderError;

/// The largest size of a file with values, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Returns the values as JSON. They may have secrets.
///
/// # Errors
/// A file cannot be read, or its content is not a mapping.
pub(super) fn merged(values: &ApplicationValues) -> Result<String, DeployError> {
    let mut merged = Map::new();
    for path in &values.files {
        let text = controller_file::read_at_most(path, LARGEST)?;
        let place = path.display();
        // The parser quotes the line, which may be a secret.
        let options = serde_saphyr::options! { with_snippet: false };
        let parsed =
            serde_saphyr::from_str_with_options::<Option<Map<String, Value>>>(&text, options);
        let parsed = parsed.map_err(|error| {
            RenderError::new("values of an application", format!("{place}: {error}"))
        })?;
        merge(&mut merged, parsed.unwrap_or_default());
    }
    if let Some(own) = &values.own {
        let own = serde_json::from_str(&own.0);
        merge(&mut merged, own.unwrap_or_default());
    }
    Ok(Value::Object(merged).to_string())
}

/// Replaces values as Helm does: fields of mappings one by one, and everything else as a whole. A null stays: it removes a
/// value of the chart.
fn merge(into: &mut Map<String, Value>, other: Map<String, Value>) {
    for (key, value) in other {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(other)) => merge(into, other),
            (_, value) => _ = into.insert(key, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_types::Secret;

    #[test]
    fn later_values_replace_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let values = ApplicationValues {
            files: vec![
                file("one", "a: {b: 1, c: [1, 2], d: yes}\ne: x"),
                file("two", "a: {c: [3], d: null}"),
                file("empty", ""),
            ],
            own: Some(Secret("{\"a\": {\"b\": 2}}".to_owned())),
        };
        assert_eq!(
            merged(&values).unwrap(),
            r#"{"a":{"b":2,"c":[3],"d":null},"e":"x"}"#
        );
        let wrong = ApplicationValues {
            files: vec![file("list", "[s3cret]")],
            own: None,
        };
        let error = merged(&wrong).unwrap_err().to_string();
        assert!(
            error.contains("/list: ") && !error.contains("s3cret"),
            "{error}"
        );
    }
}
