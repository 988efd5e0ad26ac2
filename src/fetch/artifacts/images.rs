//! Images in YAML: those that pods certainly run, and values that look like one.

use std::fmt;

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

use super::walk;
use crate::FetchError;
use crate::error::wrong;
use kubexm_types::{ImagePath, ImageRef, Message, Untrusted};

/// Maximum size of a manifest, in bytes; it is read into memory to find its images.
pub const LARGEST_MANIFEST: u64 = 64 * 1024 * 1024;

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

impl Read {
    /// Returns the values, certain images first, and each image once.
    pub fn sorted(mut self) -> Vec<Found> {
        sort(&mut self.found);
        self.found
    }
}

/// Searches the documents of a text. `file` is the prefix of each place, unless it is empty. The fields at `paths` name images
/// that pods certainly run.
pub fn images_in_yaml(text: &str, file: &str, paths: &[ImagePath]) -> Read {
    let mut read = Read::default();
    for (_, document) in documents(text) {
        match parse(&document) {
            Some(value) => {
                read.documents += usize::from(value["kind"].is_string());
                walk::images(&value, file, paths, &mut read.found);
            }
            None => {
                read.unreadable += 1;
                read.found.extend(images_in_lines(&document, file));
            }
        }
    }
    read
}

/// Splits a YAML stream into documents, each with the number of lines before it. Each is parsed separately, so that an invalid
/// one does not affect the others.
fn documents(text: &str) -> Vec<(u64, String)> {
    let mut documents = vec![(0, String::new())];
    for (number, line) in (1..).zip(text.lines()) {
        let ends = line == "---" || line.starts_with("--- ");
        match documents.last_mut() {
            Some((_, last)) if !ends => {
                last.push_str(line);
                last.push('\n');
            }
            _ => documents.push((number, String::new())),
        }
    }
    let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    documents.retain(|(_, document)| !document.lines().all(is_empty));
    documents
}

/// Parses a document within limits; returns `None` if it is not valid YAML. Of a field that is there twice, it returns the last
/// one, as Helm does.
pub fn parse(text: &str) -> Option<Value> {
    read(text, DuplicateKeyPolicy::LastWins).ok()
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: 100, max_nodes: 300_000, max_aliases: 1000, max_recorded_anchor_events: 20_000 },
        duplicate_keys: duplicate_keys,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// A field that a mapping has twice. Programs differ in which of them they use.
pub struct FieldTwice {
    /// The line of the second one, from 1.
    line: u64,
    name: String,
}

impl FieldTwice {
    /// Returns the error about a file with this name.
    pub fn refused(&self, file: &dyn fmt::Display) -> FetchError {
        let name = Untrusted::one_line(&self.name, 100);
        let text = format!("the field '{name}' is there twice");
        let message = Message::new(text).hint("remove one of the two fields");
        wrong(&format!("{file}:{}", self.line), message)
    }
}

/// Returns the first field that is twice in a mapping of a text of several documents. Documents that are not valid YAML have
/// none.
pub fn field_twice(text: &str) -> Option<FieldTwice> {
    documents(text).into_iter().find_map(|(before, document)| {
        let error = read(&document, DuplicateKeyPolicy::Error).err()?;
        let line = error.location().map_or(0, |location| location.line());
        match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { key, .. } => Some(FieldTwice {
                line: before + line,
                name: key.clone().unwrap_or_default(),
            }),
            _ => None,
        }
    })
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

/// Returns the images in the text of a file of any format: values of `image:`, and words with the name of a registry.
pub fn images_in_text(text: &str, place: &str) -> Vec<Found> {
    let mut found = images_in_lines(text, place);
    for (number, line) in text.lines().enumerate() {
        let place = format!("{place} line {}", number + 1);
        found.extend(full_names(line).map(|image| Found::new(image, place.clone(), false)));
    }
    found
}

/// Returns the words of a text that are images with the name of a registry.
pub fn full_names(text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || ",;=|<>()[]{}'\"`\\".contains(c);
    text.split(ends).filter(|word| is_full_name(word))
}

/// Returns whether a text is an image with the name of a registry. Other words have a colon, too.
fn is_full_name(word: &str) -> bool {
    let registry = word.split_once('/').map_or("", |(first, _)| first);
    registry.contains(['.', ':']) && ImageRef::parse(word).is_ok()
}

/// Joins `repository` with `registry`, `tag` and `digest`. An empty tag is replaced by `default`, as most
/// charts do with their `appVersion`. Some operators have `image` or `baseImage` with a `version`.
pub fn joined(value: &Value, default: Option<&str>) -> Option<String> {
    let part = |name: &str| match &value[name] {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    if let (Some(version), false) = (part("version"), value.get("tag").is_some()) {
        let name = match (part("repository"), part("image"), part("baseImage")) {
            (Some(repository), Some(image), _) => Some(format!("{repository}/{image}")),
            (None, None, base) => base,
            _ => None,
        };
        if let Some(name) = name {
            let mark = if version.starts_with("sha256:") {
                '@'
            } else {
                ':'
            };
            return Some(format!("{name}{mark}{version}"));
        }
    }
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
mod tests;
