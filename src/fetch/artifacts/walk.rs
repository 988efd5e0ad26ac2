//! The traversal of a Kubernetes object in search of images.

use serde_json::Value;

use super::images::{Found, full_names, images_in_text, joined};
use super::known;
use kubexm_types::{FieldPath, ImagePath, ImageRef, Untrusted};

/// The lists of containers in a pod's specification
/// (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/>).
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// The prefix of environment variables that name the images that an operator starts.
const RELATED: &str = "RELATED_IMAGE_";

/// Adds the images of a document. `file` is its name in places, if the document is not an object.
pub fn images(document: &Value, file: &str, paths: &[ImagePath], found: &mut Vec<Found>) {
    let mut walk = Walk {
        object: file.to_owned(),
        paths,
        found,
    };
    walk.object(document);
    walk.step(document, &mut Vec::new());
}

fn describe(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str()?;
    let name = object["metadata"]["name"].as_str();
    let text = name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"));
    Some(Untrusted::one_line(&text, 120).to_string())
}

struct Walk<'a> {
    /// The object, for places.
    object: String,
    /// The fields that the user declares.
    paths: &'a [ImagePath],
    found: &'a mut Vec<Found>,
}

impl Walk<'_> {
    /// Adds the images of fields that only objects of this kind have. Returns the name of the object before.
    fn object(&mut self, value: &Value) -> Option<String> {
        let before = std::mem::replace(&mut self.object, describe(value)?);
        for path in known::paths(value) {
            path.values(value)
                .into_iter()
                .for_each(|at| self.at(path, at));
        }
        for declared in self
            .paths
            .iter()
            .filter(|one| value["kind"] == one.kind.as_str())
        {
            let values = declared.path.values(value).into_iter();
            values.for_each(|at| self.at(&declared.path, at));
        }
        if value["kind"] == "ConfigMap" {
            let data = value["data"].as_object().into_iter().flatten();
            for (key, text) in data.filter_map(|(key, text)| Some((key, text.as_str()?))) {
                self.text(text, &dotted(&["data"], key));
            }
        }
        Some(before)
    }

    /// Adds the value of a field that names an image.
    fn at(&mut self, path: &FieldPath, value: &Value) {
        match value {
            Value::String(text) if !text.is_empty() => self.push(text, &path.to_string(), true),
            Value::Object(_) if value["enabled"] != false => {
                if let Some(text) = joined(value, None) {
                    self.push(&text, &path.to_string(), true);
                }
            }
            _ => {}
        }
    }

    fn step<'v>(&mut self, value: &'v Value, path: &mut Vec<&'v str>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.step(item, path)),
            Value::Object(fields) => {
                let is_item = path.last() == Some(&"items");
                let before = if is_item { self.object(value) } else { None };
                self.guess_of_parts(value, path);
                let last = path.last().copied().unwrap_or_default();
                let is_container = CONTAINERS.contains(&last);
                for (key, field) in fields {
                    match (key.as_str(), field) {
                        ("image", Value::String(text)) if is_container => {
                            let name = value["name"].as_str().unwrap_or("without name");
                            self.push(text, &format!("container {name}"), true);
                        }
                        ("reference", Value::String(text))
                            if path.ends_with(&["volumes", "image"]) =>
                        {
                            self.push(text, "an image volume", true);
                        }
                        ("value", Value::String(text)) if value["name"].is_string() => {
                            let name = value["name"].as_str().unwrap_or_default();
                            self.variable(name, text, last == "env");
                        }
                        ("args" | "command", Value::Array(words)) => {
                            self.arguments(words, &dotted(path, key));
                        }
                        ("image", Value::String(text)) => {
                            self.guess(text, &dotted(path, key));
                        }
                        (_, Value::String(text)) if is_image_key(key) && text.contains('/') => {
                            if ImageRef::parse(text).is_ok() {
                                self.push(text, &dotted(path, key), false);
                            }
                        }
                        _ => {
                            path.push(key);
                            self.step(field, path);
                            path.pop();
                        }
                    }
                }
                if let Some(before) = before {
                    self.object = before;
                }
            }
            _ => {}
        }
    }

    /// Detects images that a program gets from its environment.
    fn variable(&mut self, name: &str, text: &str, is_env: bool) {
        if name.starts_with(RELATED) || (is_env && name.ends_with("IMAGE")) {
            self.guess(text, name);
        } else if is_env {
            full_names(text).for_each(|image| self.push(image, &dotted(&["env"], name), false));
        }
    }

    /// Detects images among the arguments of a program.
    fn arguments(&mut self, words: &[Value], place: &str) {
        let mut former = "";
        for word in words.iter().filter_map(Value::as_str) {
            let (flag, value) = word.split_once('=').unwrap_or((former, word));
            if known::is_image_flag(flag) {
                self.push(value, flag, true);
            } else {
                full_names(word).for_each(|image| self.push(image, place, false));
            }
            former = word;
        }
    }

    /// Detects images in the text of a file.
    fn text(&mut self, text: &str, place: &str) {
        for found in images_in_text(text, place) {
            let place = self.place(&found.place);
            self.found.push(Found { place, ..found });
        }
    }

    /// Detects an image whose parts are separate values, as in charts and in some operators.
    fn guess_of_parts(&mut self, value: &Value, path: &[&str]) {
        if let Some(text) = joined(value, None) {
            let last = path.last().copied().unwrap_or_default();
            self.guess(&text, &dotted(&path[..path.len().saturating_sub(1)], last));
        }
    }

    /// Adds a value only if it looks like an image, because other fields have the same name.
    fn guess(&mut self, text: &str, place: &str) {
        let found = Found::new(text, String::new(), false);
        let like_one = text.contains('/') && !text.contains("://") && !text.starts_with('/');
        if found.image.is_ok() || (like_one && !text.contains(' ')) {
            self.push(text, place, false);
        }
    }

    fn push(&mut self, text: &str, place: &str, is_sure: bool) {
        self.found
            .push(Found::new(text, self.place(place), is_sure));
    }

    fn place(&self, place: &str) -> String {
        let place = if self.object.is_empty() {
            place.to_owned()
        } else {
            format!("{}, {place}", self.object)
        };
        Untrusted::one_line(&place, 250).to_string()
    }
}

/// Returns whether a field with this name often has an image: `dockerImage`, `sidecar.istio.io/proxyImage`.
fn is_image_key(key: &str) -> bool {
    ["Image", "_image", "imageName"]
        .iter()
        .any(|end| key.ends_with(end))
}

fn dotted(path: &[&str], last: &str) -> String {
    let parts: Vec<&str> = path.iter().copied().chain([last]).collect();
    let text: String = parts.join(".");
    Untrusted::one_line(&text, 120).to_string()
}
