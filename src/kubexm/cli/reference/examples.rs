//! Checks the examples in the book and in the README: commands against clap, YAML against the schemas.

use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;
use kubexm_config::schema;
use serde_json::Value;

use crate::cli::Arguments;

/// A block of code, or a code span in a line, and where it is.
struct Example {
    place: String,
    /// The language of a fence; `None` for a span.
    language: Option<String>,
    text: String,
}

/// Every Markdown file of the book, and the README, except the generated pages.
fn documents() -> Vec<PathBuf> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found)
            } else {
                found.push(path)
            }
        }
    }
    let source = super::folder().parent().unwrap().to_owned();
    let mut found = vec![source.join("../../README.md")];
    collect(&source, &mut found);
    let is_written = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        !text.starts_with("<!-- Generated")
    };
    found.retain(is_written);
    found
}

fn examples() -> Vec<Example> {
    let mut found = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut fence: Option<Example> = None;
        for (at, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path.display(), at + 1);
            let start = line.trim_start();
            match (&mut fence, start.strip_prefix("```")) {
                (None, Some(language)) => {
                    let language = Some(language.to_owned());
                    fence = Some(Example {
                        place,
                        language,
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => found.extend(fence.take()),
                (Some(example), None) => {
                    example.text.push_str(line);
                    example.text.push('\n');
                }
                (None, None) => {
                    let spans = line.split('`').skip(1).step_by(2);
                    found.extend(spans.map(|span| Example {
                        place: place.clone(),
                        language: None,
                        text: span.to_owned(),
                    }));
                }
            }
        }
    }
    found
}

/// The words of each call of kubexm in a shell example. Calls that are shortened by `…` are left out.
fn calls(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches("$ "));
    let lines = lines.filter(|line| line.starts_with("kubexm ") && !line.contains('…'));
    let words = lines.map(|line| {
        let words = line.split_whitespace();
        let words = words.take_while(|word| !["#", "|", ">", "&&"].contains(word));
        words.map(|word| word.replace(['"', '\''], "")).collect()
    });
    words.collect()
}

#[test]
fn commands_in_the_documentation_exist() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for example in examples() {
        let is_fence = match example.language.as_deref() {
            None => false,
            Some("sh" | "console") => true,
            Some(_) => continue,
        };
        for words in calls(&example.text) {
            checked += 1;
            let Err(error) = Arguments::try_parse_from(&words) else {
                continue;
            };
            let is_fine = match error.kind() {
                // Files of the examples are not there.
                ErrorKind::ValueValidation | ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    true
                }
                // A span in a sentence may name a command without its arguments.
                ErrorKind::MissingRequiredArgument
                | ErrorKind::MissingSubcommand
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !is_fence,
                _ => false,
            };
            if !is_fine {
                wrong.push(format!("{}: {}\n{error}", example.place, words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 50, "only {checked} commands were found");
}

/// The first field that a schema does not have.
fn unknown_field(schema: &Value, value: &Value, path: &str) -> Option<String> {
    if let Some(branches) = schema["oneOf"].as_array() {
        // The documentation uses no former names.
        let current = branches
            .iter()
            .filter(|branch| branch["deprecated"] != true);
        let unknown = current.map(|branch| unknown_field(branch, value, path));
        return unknown.min_by_key(Option::is_some).flatten();
    }
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, inner)| {
            let place = format!("{path}.{name}");
            match (
                schema["properties"].get(name),
                &schema["additionalProperties"],
            ) {
                (Some(schema), _) => unknown_field(schema, inner, &place),
                (None, Value::Bool(false)) => Some(place),
                (None, schema) => unknown_field(schema, inner, &place),
            }
        }),
        Value::Array(items) => items
            .iter()
            .find_map(|item| unknown_field(&schema["items"], item, path)),
        _ => {
            let values = schema["enum"].as_array();
            let is_unknown = values.is_some_and(|values| !values.contains(value));
            is_unknown.then(|| format!("{path}: {value}"))
        }
    }
}

#[test]
fn yaml_in_the_documentation_fits_a_schema() {
    let schemas = [
        schema::cluster(),
        schema::BUNDLE.to_owned(),
        schema::MIRRORS.to_owned(),
    ];
    let schemas = schemas.map(|text| serde_json::from_str::<Value>(&text).unwrap());
    let mut checked = 0;
    let mut wrong = Vec::new();
    for example in examples() {
        if example.language.as_deref() != Some("yaml") {
            continue;
        }
        checked += 1;
        let value: Value = match serde_saphyr::from_str(&example.text) {
            Ok(value) => value,
            Err(error) => {
                wrong.push(format!("{}: {error}", example.place));
                continue;
            }
        };
        let version = value["apiVersion"].as_str();
        if version.is_some_and(|version| !version.starts_with("kubexm.io/")) {
            // An object of Kubernetes.
            continue;
        }
        let unknown: Vec<String> = schemas
            .iter()
            .filter_map(|schema| unknown_field(schema, &value, ""))
            .collect();
        if unknown.len() == schemas.len() {
            wrong.push(format!(
                "{}: fits no schema: {}",
                example.place,
                unknown.join(" or ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 15, "only {checked} examples were found");
}
