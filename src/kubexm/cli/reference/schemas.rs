//! Pages of the files that users write, from their JSON schemas.

use std::fmt::Write;

use serde_json::Value;

use super::table::escaped;

/// What a page says besides its schema.
pub struct Page {
    introduction: &'static str,
    /// Objects whose fields have a section each.
    sections: &'static [&'static str],
}

pub const CLUSTER: Page = Page {
    introduction: "A cluster file describes the hosts of a cluster and what runs on them. Commands read it \
with `-f`. Unknown fields are errors. `kubexm config init` prints a commented example, `kubexm config \
validate` checks a file, and `kubexm config schema cluster` prints the JSON schema for editors.",
    sections: &["", "spec"],
};

pub const MANIFEST: Page = Page {
    introduction: "A bundle manifest names what a bundle contains. `kubexm bundle build` and `kubexm bundle \
lock` read it with `-f`. `kubexm config init bundle` prints an example, and `kubexm config schema bundle` \
prints the JSON schema for editors.",
    sections: &["", "spec"],
};

pub const MIRRORS: Page = Page {
    introduction: "A mirror file names the servers that kubexm asks instead of the public addresses. Commands \
that download read it with `--mirrors`. `kubexm config init mirrors` prints an example, and `kubexm config \
schema mirrors` prints the JSON schema for editors.",
    sections: &[""],
};

/// A table of fields for each section of a document.
pub fn page(page: &Page, schema: &str) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let mut out = format!("{}\n\n", page.introduction);
    fields_of(&mut out, page, &schema, "");
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn join(path: &str, name: &str) -> String {
    [path, name].join(if path.is_empty() { "" } else { "." })
}

/// Writes the simple fields of an object in one table. If the page splits the object, each field with fields
/// of its own then gets a section.
fn fields_of(out: &mut String, page: &Page, schema: &Value, path: &str) {
    let mut later = Vec::new();
    let mut rows = String::new();
    for (name, inner) in schema["properties"].as_object().unwrap() {
        let place = join(path, name);
        let is_required = required(schema, name);
        if has_fields(inner) && page.sections.contains(&path) {
            later.push((place, inner));
        } else {
            row(&mut rows, &place, inner, is_required);
            nested(&mut rows, &place, inner);
        }
    }
    if !path.is_empty() && !rows.is_empty() {
        writeln!(out, "## {path}\n").unwrap();
    }
    table(out, &rows);
    for (place, inner) in later {
        if page.sections.contains(&&*place) {
            fields_of(out, page, inner, &place);
        } else {
            writeln!(out, "## {place}\n").unwrap();
            if let Some(description) = inner["description"].as_str() {
                writeln!(out, "{}\n", escaped(description)).unwrap();
            }
            let mut rows = String::new();
            nested(&mut rows, &place, inner);
            table(out, &rows);
        }
    }
}

fn table(out: &mut String, rows: &str) {
    if !rows.is_empty() {
        writeln!(
            out,
            "| field | type | meaning |\n| --- | --- | --- |\n{rows}"
        )
        .unwrap();
    }
}

fn required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|required| required.iter().any(|field| field == name))
}

/// Whether there are fields below: of an object, of a list's items, or of a map's values.
fn has_fields(schema: &Value) -> bool {
    parts(schema)
        .iter()
        .any(|(_, inner)| inner.get("properties").is_some())
}

/// The schemas below a field, with what is added to its path.
fn parts(schema: &Value) -> Vec<(&'static str, &Value)> {
    let mut found = vec![("", schema)];
    if let Some(items) = schema.get("items") {
        let branches = items["oneOf"].as_array().into_iter().flatten();
        found.extend(branches.chain([items]).map(|item| ("[]", item)));
    }
    found.extend(
        schema
            .get("additionalProperties")
            .filter(|inner| inner.is_object())
            .map(|inner| (".*", inner)),
    );
    let branches = schema["oneOf"].as_array().into_iter().flatten();
    found.extend(branches.flat_map(parts));
    found
}

fn nested(rows: &mut String, path: &str, schema: &Value) {
    for (suffix, part) in parts(schema) {
        for (name, inner) in part["properties"].as_object().into_iter().flatten() {
            let place = format!("{path}{suffix}.{name}");
            row(rows, &place, inner, required(part, name));
            nested(rows, &place, inner);
        }
    }
}

fn row(rows: &mut String, path: &str, schema: &Value, is_required: bool) {
    let mut meaning = schema["description"]
        .as_str()
        .map(escaped)
        .unwrap_or_default();
    let mut add = |text: String| {
        if !meaning.is_empty() {
            meaning.push_str("<br>");
        }
        meaning.push_str(&text);
    };
    if let Some(default) = schema.get("default") {
        add(format!("Default: `{}`", plain(default)));
    }
    for example in schema["examples"].as_array().into_iter().flatten() {
        add(format!("Example: `{}`", plain(example)));
    }
    if is_required {
        add("Required".to_owned());
    }
    let experimental = schema["x-experimental"].as_array().into_iter().flatten();
    let experimental: Vec<String> = experimental.map(plain).collect();
    if !experimental.is_empty() {
        add(format!(
            "[Experimental](../architecture/proven.md#experimental): {}",
            experimental.join(", ")
        ));
    }
    for former in former_names(schema) {
        add(former);
    }
    writeln!(rows, "| `{path}` | {} | {meaning} |", kind(schema)).unwrap();
}

fn is_deprecated(schema: &Value) -> bool {
    schema["deprecated"] == true
}

/// Describes the branches of a field, or of its items, that contain former names.
fn former_names(schema: &Value) -> Vec<String> {
    let items = schema.get("items");
    let branches = [Some(schema), items].into_iter().flatten();
    let branches = branches.flat_map(|schema| schema["oneOf"].as_array().into_iter().flatten());
    let former = branches.filter(|branch| is_deprecated(branch));
    former
        .map(|branch| {
            let description = branch["description"].as_str().unwrap_or_default();
            format!("{}: {}", escaped(description), kind(branch))
        })
        .collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The type of a value in words.
fn kind(schema: &Value) -> String {
    if let Some(value) = schema.get("const") {
        return format!("`{}`", plain(value));
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values
            .iter()
            .map(|value| format!("`{}`", plain(value)))
            .collect();
        return values.join(", ");
    }
    if let Some(branches) = schema["oneOf"].as_array() {
        let current = branches.iter().filter(|branch| !is_deprecated(branch));
        return current.map(kind).collect::<Vec<_>>().join(" or ");
    }
    let named = |name: &str| match name {
        "array" => match schema.get("items") {
            Some(items) => format!("list of {}", kind(items)),
            None => "list".to_owned(),
        },
        "object" => match schema.get("additionalProperties") {
            Some(inner) if inner.is_object() => format!("map to {}", kind(inner)),
            _ => "object".to_owned(),
        },
        "integer" => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (Some(least), Some(most)) => format!("integer, {least} to {most}"),
            (Some(least), None) => format!("integer, at least {least}"),
            _ => "integer".to_owned(),
        },
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => named(name),
        Value::Array(names) => {
            // A list can also be written as one of its items: that one first.
            let (lists, others): (Vec<&str>, Vec<&str>) = names
                .iter()
                .filter_map(Value::as_str)
                .partition(|name| *name == "array");
            let names: Vec<String> = others.into_iter().chain(lists).map(named).collect();
            names.join(" or ")
        }
        _ => "any".to_owned(),
    }
}
