//! Images in YAML: those that pods certainly run, and values that look like one.

use std::fmt;

use serde_json::Value;

use kubexm_types::{ImageRef, Untrusted};

/// The lists of containers in a pod's specification
/// (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/>).
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// The prefix of environment variables that name the images that an operator starts.
const RELATED: &str = "RELATED_IMAGE_";

/// A value that names an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub text: String,
    /// The image, or why the value is not an image that can be fetched.
    pub image: Result<ImageRef, String>,
    /// Where the value was found, for messages.
    pub place: String,
    /// Whether a pod certainly runs it.
    pub is_sure: bool,
}

impl Found {
    /// Returns the image, if a pod certainly runs it and it can be fetched.
    pub fn sure(&self) -> Option<ImageRef> {
        self.image.clone().ok().filter(|_| self.is_sure)
    }

    pub(super) fn new(text: &str, place: String, is_sure: bool) -> Self {
        let text = text.trim();
        let shown = Untrusted::one_line(text, 200).to_string();
        let image = if text.contains("{{") || text.contains("$(") || text.contains("${") {
            Err("contains a variable that kubexm cannot resolve".to_owned())
        } else {
            ImageRef::parse(text).map_err(|error| error.reason)
        };
        Self {
            text: shown,
            image,
            place,
            is_sure,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.image {
            Ok(image) => write!(f, "{image} ({})", self.place),
            Err(reason) => write!(f, "'{}' ({}): {reason}", self.text, self.place),
        }
    }
}

/// The result of a search in a text of several documents.
#[derive(Debug, Default)]
pub struct Read {
    /// All values that name an image.
    pub found: Vec<Found>,
    /// Number of documents that are Kubernetes objects.
    pub documents: usize,
    /// Number of documents that are not valid YAML.
    pub unreadable: usize,
}

/// Searches the documents of a text. `file` is the prefix of each place, unless it is empty.
pub fn images_in_yaml(text: &str, file: &str) -> Read {
    let mut read = Read::default();
    for document in documents(text) {
        match parse(&document) {
            Some(value) => {
                read.documents += usize::from(value["kind"].is_string());
                let walk = Walk {
                    object: describe(&value).unwrap_or_else(|| file.to_owned()),
                    found: &mut read.found,
                };
                walk.into(&value, &mut Vec::new());
            }
            None => {
                read.unreadable += 1;
                read.found.extend(images_in_lines(&document, file));
            }
        }
    }
    read
}

/// Splits a YAML stream into documents. Each is parsed separately, so that an invalid one does not affect
/// the others.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        let ends = line == "---" || line.starts_with("--- ");
        match documents.last_mut() {
            Some(last) if !ends => {
                last.push_str(line);
                last.push('\n');
            }
            _ => documents.push(String::new()),
        }
    }
    let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    documents.retain(|document| !document.lines().all(is_empty));
    documents
}

/// Parses a document within limits; returns `None` if it is not valid YAML.
pub fn parse(text: &str) -> Option<Value> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: 100, max_nodes: 300_000, max_aliases: 1000, max_recorded_anchor_events: 20_000 },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).ok()
}

/// Returns the lines that set an image in a text that is not valid YAML.
pub fn images_in_lines(text: &str, file: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start().trim_start_matches("- ");
        let Some(value) = line.strip_prefix("image:") else {
            continue;
        };
        let value = match value.trim() {
            quoted if quoted.starts_with(['"', '\'']) => quoted.trim_matches(['"', '\'']),
            bare => bare.split(" #").next().unwrap_or(bare),
        };
        if !value.is_empty() {
            let place = format!("{file} line {}", number + 1);
            found.push(Found::new(value, place.trim_start().to_owned(), false));
        }
    }
    found
}

fn describe(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str()?;
    let name = object["metadata"]["name"].as_str();
    let text = name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"));
    Some(Untrusted::one_line(&text, 120).to_string())
}

/// The traversal of one object.
struct Walk<'a> {
    object: String,
    found: &'a mut Vec<Found>,
}

impl Walk<'_> {
    fn into<'v>(mut self, value: &'v Value, path: &mut Vec<&'v str>) {
        self.step(value, path);
    }

    fn step<'v>(&mut self, value: &'v Value, path: &mut Vec<&'v str>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.step(item, path)),
            Value::Object(fields) => {
                let inner = path.last() == Some(&"items");
                let before = match describe(value).filter(|_| inner) {
                    Some(name) => Some(std::mem::replace(&mut self.object, name)),
                    None => None,
                };
                self.guess_of_parts(value, path);
                let is_container = path.last().is_some_and(|last| CONTAINERS.contains(last));
                for (key, field) in fields {
                    match (key.as_str(), field) {
                        ("image", Value::String(text)) if is_container => {
                            let name = value["name"].as_str().unwrap_or("without name");
                            self.push(text, &format!("container {name}"), true);
                        }
                        ("image", Value::String(text)) => {
                            self.guess(text, &dotted(path, "image"));
                        }
                        ("reference", Value::String(text))
                            if path.ends_with(&["volumes", "image"]) =>
                        {
                            self.push(text, "an image volume", true);
                        }
                        ("value", Value::String(text))
                            if value["name"]
                                .as_str()
                                .is_some_and(|n| n.starts_with(RELATED)) =>
                        {
                            self.guess(text, value["name"].as_str().unwrap_or_default());
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
        let place = if self.object.is_empty() {
            place.to_owned()
        } else {
            format!("{}, {place}", self.object)
        };
        self.found.push(Found::new(text, place, is_sure));
    }
}

fn dotted(path: &[&str], last: &str) -> String {
    let parts: Vec<&str> = path.iter().copied().chain([last]).collect();
    let text: String = parts.join(".");
    Untrusted::one_line(&text, 120).to_string()
}

/// Joins `repository` with `registry`, `tag` and `digest`. An empty tag is replaced by `default`, as most
/// charts do with their `appVersion`.
pub fn joined(value: &Value, default: Option<&str>) -> Option<String> {
    let part = |name: &str| match &value[name] {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    // A map with a repository but without a tag is not an image, for example a chart repository.
    if !["tag", "digest"]
        .iter()
        .any(|name| value.get(name).is_some())
    {
        return None;
    }
    let repository = part("repository").or_else(|| part("registry").and(part("name")))?;
    let mut text = match part("registry") {
        Some(registry) => format!("{registry}/{repository}"),
        None => repository,
    };
    if let Some(tag) = part("tag").or_else(|| default.map(str::to_owned)) {
        text = format!("{text}:{tag}");
    }
    if let Some(digest) = part("digest") {
        text = format!("{text}@{digest}");
    }
    Some(text)
}

/// Sorts certain images first and removes duplicates; the first place of each image stays.
pub fn sort(found: &mut Vec<Found>) {
    found.sort_by(|a, b| (!a.is_sure, &a.text, &a.place).cmp(&(!b.is_sure, &b.text, &b.place)));
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|one| {
        let key = one
            .image
            .as_ref()
            .map_or(one.text.clone(), ToString::to_string);
        seen.insert(key)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, bool)> {
        let mut found = images_in_yaml(text, "").found;
        sort(&mut found);
        let image = |one: &Found| one.image.as_ref().ok().map(ToString::to_string);
        let shown = |one: &Found| image(one).unwrap_or_else(|| format!("?{}", one.text));
        found.iter().map(|one| (shown(one), one.is_sure)).collect()
    }

    #[test]
    fn pods_images_are_sure_wherever_the_pod_stands() {
        let text = "
kind: List
items:
- kind: CronJob
  metadata: {name: c}
  spec: {jobTemplate: {spec: {template: {spec: {
    containers: [{name: a, image: a.example/a:1}],
    initContainers: [{name: b, image: 'b:2'}],
    ephemeralContainers: [{name: c, image: c.example/c@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}],
    volumes: [{name: v, image: {reference: d.example/d:4}}]}}}}}
--- # another
kind: Rollout
spec: {template: {spec: {containers: [{image: e.example/e:5}]}}}
";
        let sure: Vec<String> = found(text)
            .into_iter()
            .filter(|f| f.1)
            .map(|f| f.0)
            .collect();
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let c = format!("c.example/c@{digest}");
        let all = [
            "a.example/a:1",
            "docker.io/library/b:2",
            &c,
            "d.example/d:4",
            "e.example/e:5",
        ];
        assert_eq!(sure.len(), all.len(), "{sure:?}");
        assert!(
            all.iter().all(|image| sure.iter().any(|s| s == image)),
            "{sure:?}"
        );
        let places = images_in_yaml(text, "").found;
        assert_eq!(places[0].place, "CronJob c, container a");
    }

    #[test]
    fn others_are_guesses_and_what_is_no_image_is_left_alone() {
        let text = "
kind: Prometheus
metadata: {name: p}
spec:
  image: quay.io/p/p:v3
  alertmanager: {image: {registry: quay.io, repository: p/a, tag: 0.28}}
  icon: {image: /logo.png}
  page: {image: https://example.org/x.png}
  word: {image: picture}
  repo: {repository: https://charts.example, name: x}
  env: [{name: RELATED_IMAGE_X, value: x.example/x:1}, {name: OTHER, value: y.example/y:1}]
";
        let wanted = ["quay.io/p/a:0.28", "quay.io/p/p:v3", "x.example/x:1"];
        let wanted: Vec<_> = wanted.iter().map(|w| ((*w).to_owned(), false)).collect();
        assert_eq!(found(text), wanted);
    }

    #[test]
    fn an_image_without_tag_or_with_variables_is_reported_and_not_used() {
        let text = "kind: Pod\nspec: {containers: [{name: a, image: nginx}, \
                    {name: b, image: 'x.example/b:${TAG}'}]}\n";
        let read = images_in_yaml(text, "");
        assert!(
            read.found.iter().all(|f| f.sure().is_none() && f.is_sure),
            "{read:?}"
        );
        let found = [read.found[0].to_string(), read.found[1].to_string()];
        insta::assert_snapshot!(found.join("\n"), @"
        'nginx' (Pod, container a): expected a tag or a digest, as in registry.k8s.io/pause:3.10
        'x.example/b:${TAG}' (Pod, container b): contains a variable that kubexm cannot resolve
        ");
    }

    #[test]
    fn a_document_that_is_no_yaml_takes_no_other_with_it() {
        let text = "a: [\n  image: x.example/a:1\n---\nkind: Pod\nspec: {containers: [{image: b.example/b:1}]}\n";
        let read = images_in_yaml(text, "");
        assert_eq!((read.documents, read.unreadable), (1, 1));
        let all = [
            ("b.example/b:1".to_owned(), true),
            ("x.example/a:1".to_owned(), false),
        ];
        assert_eq!(found(text), all);
    }

    #[test]
    fn deep_and_endless_documents_end() {
        let deep = format!("kind: Pod\nx: {}{}", "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(images_in_yaml(&deep, "").unreadable, 1);
        let bomb = "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]\n";
        assert_eq!(images_in_yaml(bomb, "").unreadable, 1);
    }
}
