//! The values with which a chart is rendered: its own ones, and those of the cluster file.

use serde_json::{Map, Value};

use super::values::merge;
use crate::DeployError;
use kubexm_render::RenderError;

/// Merges the text of `values.yaml` of a chart with the values of an application, as Helm does.
///
/// # Errors
/// The text is not YAML.
pub fn effective_values(defaults: &str, given: Value) -> Result<Value, DeployError> {
    let own = serde_saphyr::from_str::<Option<Map<String, Value>>>(defaults);
    let own = own.map_err(|error| RenderError::new("values of a chart", error))?;
    let mut merged = own.unwrap_or_default();
    if let Value::Object(given) = given {
        merge(&mut merged, given);
    }
    without_nulls(&mut merged);
    Ok(Value::Object(merged))
}

/// Removes the fields without a value: with a null, Helm removes the value of a chart.
fn without_nulls(values: &mut Map<String, Value>) {
    values.retain(|_, value| !value.is_null());
    for value in values.values_mut() {
        if let Value::Object(inner) = value {
            without_nulls(inner);
        }
    }
}
