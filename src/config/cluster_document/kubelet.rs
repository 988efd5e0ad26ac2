//! Fields of `spec.kubernetes.kubelet` that stand for fields of its configuration.

use serde_json::{Map, Value, json};

use crate::reader::Fields;

/// Resources that a kubelet can reserve
/// (<https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/>).
const RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// Adds the fields to the user's part of the KubeletConfiguration.
pub(super) fn read_settings(kubelet: &Fields<'_>, config: &mut Value) {
    for name in ["systemReserved", "kubeReserved"] {
        if let Some(reserved) = read_resources(kubelet, name) {
            set(kubelet, config, name, reserved);
        }
    }
    if kubelet.get("serializeImagePulls").is_some() {
        let serialize = kubelet.flag("serializeImagePulls", true);
        set(kubelet, config, "serializeImagePulls", json!(serialize));
    }
}

/// Sets a field of the configuration. A second value in `extraConfig` is a problem.
fn set(kubelet: &Fields<'_>, config: &mut Value, name: &'static str, value: Value) {
    let Some(fields) = config.as_object_mut() else {
        return;
    };
    if fields.contains_key(name) {
        let hint = "remove one of the two";
        kubelet.problem(name, "is set in extraConfig, too", Some(hint));
    }
    fields.insert(name.to_owned(), value);
}

fn read_resources(kubelet: &Fields<'_>, name: &'static str) -> Option<Value> {
    let fields = kubelet.section(name)?;
    let mut reserved = Map::new();
    for resource in RESOURCES {
        let Some(text) = fields.text(resource) else {
            continue;
        };
        if !is_quantity(&text) {
            let message = format!("'{text}' is not a quantity");
            let hint = "write a number with a unit, as in 200m or 250Mi";
            fields.problem(resource, message, Some(hint));
        }
        reserved.insert(resource.to_owned(), Value::String(text));
    }
    fields.finish();
    Some(Value::Object(reserved))
}

/// Returns whether a text is a positive quantity
/// (<https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>).
fn is_quantity(text: &str) -> bool {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let unit = text.trim_start_matches(is_number);
    let number = text.strip_suffix(unit).unwrap_or_default();
    let units = [
        "", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    number.parse::<f64>().is_ok() && units.contains(&unit)
}
