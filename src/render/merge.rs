//! Merges settings of the user into rendered files.

use serde_json::Value;

use super::RenderError;

/// Merges `over` into `base`. Objects are merged field by field, and a null removes a field. All other values are
/// replaced.
pub fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                if value.is_null() {
                    base.shift_remove(name);
                } else {
                    merge(base.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

fn is_empty(settings: &Value) -> bool {
    settings.as_object().is_none_or(serde_json::Map::is_empty)
}

/// Returns a YAML document with merged settings. Without settings the text does not change.
///
/// # Errors
/// `text` is not YAML.
pub fn yaml(what: &'static str, text: String, over: &Value) -> Result<String, RenderError> {
    if is_empty(over) {
        return Ok(text);
    }
    let mut value: Value =
        serde_saphyr::from_str(&text).map_err(|error| RenderError::new(what, error))?;
    merge(&mut value, over);
    serde_saphyr::to_string(&value).map_err(|error| RenderError::new(what, error))
}

/// Returns a stream of YAML documents whose first documents are merged with the settings in the same places. Documents
/// without settings do not change, and comments at the start of a document remain.
///
/// # Errors
/// A document is not YAML.
pub fn yaml_documents(
    what: &'static str,
    text: String,
    over: &[&Value],
) -> Result<String, RenderError> {
    if over.iter().all(|settings| is_empty(settings)) {
        return Ok(text);
    }
    let mut documents = Vec::new();
    for (at, document) in text.split("\n---\n").enumerate() {
        let settings = over.get(at).filter(|settings| !is_empty(settings));
        let Some(settings) = settings else {
            documents.push(document.trim_end().to_owned());
            continue;
        };
        let merged = yaml(what, document.to_owned(), settings)?;
        documents.push(comment(document) + merged.trim_end());
    }
    Ok(documents.join("\n---\n") + "\n")
}

/// Returns the comment at the start of a text.
fn comment(text: &str) -> String {
    let lines = text.lines().take_while(|line| line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns a JSON document with merged settings. Without settings the text does not change.
///
/// # Errors
/// `text` is not JSON.
pub fn json(what: &'static str, text: String, over: &Value) -> Result<String, RenderError> {
    if is_empty(over) {
        return Ok(text);
    }
    let failed = |error| RenderError::new(what, error);
    let mut value: Value = serde_json::from_str(&text).map_err(failed)?;
    merge(&mut value, over);
    serde_json::to_string_pretty(&value)
        .map(|text| text + "\n")
        .map_err(failed)
}

/// Returns a TOML document with merged settings. Without settings the text does not change. The comment at the
/// start of the text remains.
///
/// # Errors
/// `text` is not TOML, or a setting has a type that TOML does not have.
pub fn toml(what: &'static str, text: String, over: &Value) -> Result<String, RenderError> {
    if is_empty(over) {
        return Ok(text);
    }
    let table: toml::Table = text
        .parse()
        .map_err(|error| RenderError::new(what, error))?;
    let mut value = serde_json::to_value(table).map_err(|error| RenderError::new(what, error))?;
    merge(&mut value, over);
    let merged = toml::to_string_pretty(&value).map_err(|error| RenderError::new(what, error))?;
    Ok(comment(&text) + &merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_merged_replaced_and_removed() {
        let mut base = json!({"a": {"b": 1, "c": [1]}, "d": true});
        merge(
            &mut base,
            &json!({"a": {"c": [2], "e": null}, "d": null, "f": "g"}),
        );
        assert_eq!(base, json!({"a": {"b": 1, "c": [2]}, "f": "g"}));
    }

    #[test]
    fn settings_are_merged_into_the_document_in_their_place() {
        let text = "# note\na: 1\nb: 2\n---\nc: 3\n---\nd: 4\n".to_owned();
        let (first, second) = (json!({}), json!({"c": null, "e": {"f": true}}));
        let merged = yaml_documents("t", text.clone(), &[&first, &second]).unwrap();
        assert_eq!(
            merged,
            "# note\na: 1\nb: 2\n---\ne:\n  f: true\n---\nd: 4\n"
        );
        let merged = yaml_documents("t", text.clone(), &[&json!({"b": 9}), &first]).unwrap();
        assert_eq!(merged, "# note\na: 1\nb: 9\n---\nc: 3\n---\nd: 4\n");
        assert_eq!(yaml_documents("t", text.clone(), &[&first]).unwrap(), text);
    }

    #[test]
    fn toml_keeps_other_fields_and_its_comment() {
        let text = "# note\nversion = 3\n[plugins.'a.b']\nx = true\n".to_owned();
        let merged = toml("t", text, &json!({"plugins": {"a.b": {"y": 1}}})).unwrap();
        let table: toml::Table = merged.parse().unwrap();
        assert_eq!(table["plugins"]["a.b"]["x"].as_bool(), Some(true));
        assert_eq!(table["plugins"]["a.b"]["y"].as_integer(), Some(1));
        assert!(merged.starts_with("# note\n"));
    }
}
