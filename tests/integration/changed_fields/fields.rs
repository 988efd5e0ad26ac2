//! The fields of a JSON schema.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the paths of all fields without fields of their own, below `spec`. `[]` is an item of a list, and `*` a key that
/// the user chooses. Fields with a single value are left out.
pub fn of(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(schema, "", &mut found);
    let below_spec = |path: &String| path.strip_prefix("spec.").unwrap_or(path).to_owned();
    found.iter().map(below_spec).collect()
}

fn collect(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let one = std::slice::from_ref(schema);
    let branches = schema["oneOf"].as_array().map_or(one, Vec::as_slice);
    let mut is_leaf = true;
    for branch in branches {
        for (name, inner) in branch["properties"].as_object().into_iter().flatten() {
            is_leaf = false;
            let separator = if path.is_empty() { "" } else { "." };
            collect(inner, &format!("{path}{separator}{name}"), found);
        }
        if branch["items"]["properties"].is_object() {
            is_leaf = false;
            collect(&branch["items"], &format!("{path}[]"), found);
        }
        if branch["additionalProperties"]["properties"].is_object() {
            is_leaf = false;
            collect(&branch["additionalProperties"], &format!("{path}.*"), found);
        }
    }
    if is_leaf && schema.get("const").is_none() {
        found.insert(path.to_owned());
    }
}

#[test]
fn fields_of_lists_maps_and_alternatives_are_found() {
    let schema = serde_json::json!({"properties": {
        "kind": {"const": "Cluster"},
        "spec": {"properties": {
            "hosts": {"items": {"properties": {"name": {"type": "string"}}}},
            "jump": {"oneOf": [{"properties": {"user": {"type": "string"}}}, {"const": "none"}]},
            "registries": {"additionalProperties": {"properties": {"ca": {"type": "string"}}}},
            "labels": {"additionalProperties": {"type": "string"}},
        }},
    }});
    let found: Vec<String> = of(&schema).into_iter().collect();
    assert_eq!(
        found,
        ["hosts[].name", "jump.user", "labels", "registries.*.ca"]
    );
}

#[test]
fn page_about_other_tools_names_fields_that_exist() {
    let schema = serde_json::from_str(&kubexm_config::schema::cluster()).unwrap();
    let fields = of(&schema);
    let page = include_str!("../../../docs/src/reference/differences.md");
    let spans = page.split('`').skip(1).step_by(2);
    let named: Vec<&str> = spans
        .filter_map(|span| span.strip_prefix("spec."))
        .collect();
    // A field, or one that has fields.
    let exists = |name: &str| {
        let of_field = |field: &String| {
            let rest = field.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        fields.iter().any(of_field)
    };
    let unknown: Vec<&&str> = named.iter().filter(|name| !exists(name)).collect();
    assert!(
        unknown.is_empty(),
        "no fields of the cluster file: {unknown:?}"
    );
    assert!(named.len() > 15, "only {} fields are named", named.len());
}
