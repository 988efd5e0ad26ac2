//! JSON schemas for editors, and commented templates.

use super::cluster::{Addon, PluginKind, RuntimeKind};
use super::{cluster_document, experimental};

/// The schema with placeholders for the lists of types.
const CLUSTER: &str = include_str!("../../manifests/schema/cluster.json");

/// Returns the JSON schema of cluster files (draft 2020-12).
pub fn cluster() -> String {
    let listed = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        names.join(", ")
    };
    let experimental = |field: &str| {
        let of_field = experimental::of_clusters().filter(|(other, _)| *other == field);
        listed(&of_field.map(|(_, value)| value).collect::<Vec<_>>())
    };
    CLUSTER
        .replace(
            "\"<experimental container runtimes>\"",
            &experimental("spec.containerRuntime.type"),
        )
        .replace(
            "\"<experimental network plugins>\"",
            &experimental("spec.network.plugin"),
        )
        .replace("\"<container runtimes>\"", &listed(RuntimeKind::NAMES))
        .replace("\"<network plugins>\"", &listed(PluginKind::NAMES))
        .replace("\"<add-ons>\"", &listed(Addon::NAMES))
        .replace(
            "\"<load balancers>\"",
            &listed(&cluster_document::load_balancer_types()),
        )
}

/// JSON schema of bundle manifests (draft 2020-12).
pub const BUNDLE: &str = include_str!("../../manifests/schema/bundle.json");

/// JSON schema of mirror files (draft 2020-12).
pub const MIRRORS: &str = include_str!("../../manifests/schema/mirrors.json");

/// A commented cluster file.
pub const TEMPLATE: &str = include_str!("../../manifests/cluster-example.yaml");

/// A commented bundle manifest.
pub const BUNDLE_TEMPLATE: &str = include_str!("../../manifests/kubernetes-1.36.yaml");

/// A commented mirror file.
pub const MIRRORS_TEMPLATE: &str = include_str!("../../manifests/mirrors/cn.yaml");

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{Problems, parse_cluster, parse_manifest, parse_mirrors};

    /// An unknown field, too different from every name for a "did you mean".
    const UNKNOWN: &str = "qqqqqqqqqqqqqqqqqqqqqqqq";

    /// Creates a document with every field of a schema and an unknown field in each object of fixed fields. Adds the
    /// names that the schema has for each such object to `known`, by path.
    fn document(
        schema: &Value,
        path: &str,
        known: &mut BTreeMap<String, BTreeSet<String>>,
    ) -> Value {
        if let Some(branches) = schema["oneOf"].as_array() {
            let object = branches.iter().find(|branch| branch["type"] == "object");
            return document(object.unwrap_or(&branches[0]), path, known);
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[0].clone();
        }
        let kind = schema["type"].as_str().unwrap_or("array");
        match kind {
            _ if schema.get("not").is_some() => Value::Null,
            "object" if schema["additionalProperties"] == false => {
                let properties = schema["properties"].as_object().unwrap();
                known.insert(path.to_owned(), properties.keys().cloned().collect());
                let mut fields = Map::new();
                for (name, inner) in properties {
                    let place = [path, name].join(if path.is_empty() { "" } else { "." });
                    fields.insert(name.clone(), document(inner, &place, known));
                }
                fields.insert(UNKNOWN.to_owned(), json!(1));
                Value::Object(fields)
            }
            "object" => json!({}),
            "array" => json!([document(&schema["items"], &format!("{path}[0]"), known)]),
            "integer" => schema["minimum"].clone(),
            "boolean" => json!(true),
            _ => json!("node1"),
        }
    }

    /// Returns the fields that the reader knows where it found an unknown field, by path.
    fn known_to_the_reader(problems: &Problems) -> BTreeMap<String, BTreeSet<String>> {
        let unknown = problems.list.iter().filter_map(|problem| {
            let place = problem.path.strip_suffix(UNKNOWN)?;
            let names = problem.hint.as_deref()?.strip_prefix("known fields: ")?;
            let names = names.split(", ").map(str::to_owned).collect();
            Some((place.trim_end_matches('.').to_owned(), names))
        });
        unknown.collect()
    }

    /// Fails if only the schema or only the reader knows a field or an object.
    #[test]
    fn schemas_and_readers_know_the_same_fields() {
        for (name, text) in [
            ("cluster", &*cluster()),
            ("bundle", BUNDLE),
            ("mirrors", MIRRORS),
        ] {
            let schema: Value = serde_json::from_str(text).unwrap();
            let mut by_schema = BTreeMap::new();
            let yaml = document(&schema, "", &mut by_schema).to_string();
            let problems = match name {
                "cluster" => parse_cluster(name, &yaml).unwrap_err(),
                "bundle" => parse_manifest(name, &yaml).unwrap_err(),
                _ => parse_mirrors(name, &yaml).unwrap_err(),
            };
            assert_eq!(known_to_the_reader(&problems), by_schema, "{name}");
        }
    }

    /// Collects the places where a document violates a schema: types, values, bounds, missing and unknown fields.
    fn violations(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
        if let Some(branches) = schema["oneOf"].as_array() {
            let fits = |branch: &&Value| {
                let mut inner = Vec::new();
                violations(branch, value, path, &mut inner);
                inner.is_empty()
            };
            if branches.iter().filter(fits).count() != 1 {
                found.push(format!("{path}: matches not exactly one branch"));
            }
            return;
        }
        let kind = match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "integer",
            Value::Null => "null",
        };
        let types = &schema["type"];
        let one_of = |types: &Value| types.as_array().is_some_and(|t| t.contains(&json!(kind)));
        let typed = types.is_null() || *types == kind || one_of(types);
        let word = schema["enum"].as_array().is_none_or(|w| w.contains(value));
        let constant = schema.get("const").is_none_or(|wanted| wanted == value);
        let bound = value.as_i64().is_none_or(|number| {
            schema["minimum"]
                .as_i64()
                .is_none_or(|least| number >= least)
                && schema["maximum"].as_i64().is_none_or(|most| number <= most)
        });
        if !(typed && word && constant && bound) || schema.get("not").is_some() {
            found.push(format!("{path}: {value}"));
        }
        for (name, inner) in value.as_object().into_iter().flatten() {
            let place = format!("{path}.{name}");
            match (
                schema["properties"].get(name),
                &schema["additionalProperties"],
            ) {
                (Some(schema), _) => violations(schema, inner, &place, found),
                (None, Value::Bool(false)) => found.push(format!("{place}: unknown")),
                (None, schema) => violations(schema, inner, &place, found),
            }
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            if kind == "object" && value.get(name.as_str().unwrap()).is_none() {
                found.push(format!("{path}: {name} is missing"));
            }
        }
        for inner in value.as_array().into_iter().flatten() {
            violations(&schema["items"], inner, path, found);
        }
    }

    #[test]
    fn shipped_files_match_the_schemas() {
        let shipped = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests");
            std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
        };
        parse_cluster("example", TEMPLATE).unwrap();
        parse_mirrors("example", MIRRORS_TEMPLATE).unwrap();
        for (schema, text) in [
            (&*cluster(), TEMPLATE.to_owned()),
            (BUNDLE, BUNDLE_TEMPLATE.to_owned()),
            (MIRRORS, MIRRORS_TEMPLATE.to_owned()),
            (BUNDLE, shipped("kubernetes-1.30.yaml")),
            (BUNDLE, shipped("runtimes-1.36.yaml")),
            (BUNDLE, shipped("os-packages.yaml")),
        ] {
            if schema == BUNDLE {
                parse_manifest("shipped", &text).unwrap();
            }
            let schema: Value = serde_json::from_str(schema).unwrap();
            let value: Value = serde_saphyr::from_str(&text).unwrap();
            let mut found = Vec::new();
            violations(&schema, &value, "", &mut found);
            assert!(found.is_empty(), "{found:#?}");
            violations(
                &schema,
                &json!({"kind": "Other", "spec": {"hosts": 1}}),
                "",
                &mut found,
            );
            assert!(found.len() >= 3, "the check found no violations: {found:?}");
        }
    }
}
