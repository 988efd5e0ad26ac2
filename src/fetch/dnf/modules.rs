//! Modules: packages in streams, of which a host enables one
//! (<https://docs.fedoraproject.org/en-US/modularity/>).
//!
//! A package of a stream is visible only if the stream is its module's default, as on a host without
//! module settings. It then hides packages of the same name that belong to no stream. dnf applies the same
//! rule before it resolves dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read};

use serde::Deserialize;

use super::package::Package;

/// Maximum size of `modules.yaml`, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;

/// The modules of a repository.
#[derive(Debug, Default)]
pub struct Modules {
    /// Module → default stream.
    defaults: BTreeMap<String, String>,
    /// Package (by name, version and architecture) → the streams that contain it.
    streams: BTreeMap<String, BTreeSet<(String, String)>>,
}

#[derive(Deserialize)]
struct Document {
    document: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    /// The module's name in a document for a stream.
    name: Option<String>,
    /// The module's name in a document for defaults.
    module: Option<String>,
    /// As a string, because 1.10 is not 1.1.
    stream: Option<String>,
    artifacts: Option<Artifacts>,
}

#[derive(Deserialize)]
struct Artifacts {
    #[serde(default)]
    rpms: Vec<String>,
}

impl Modules {
    /// Adds the modules of a `modules.yaml`.
    ///
    /// # Errors
    /// The text cannot be parsed.
    pub fn with(mut self, source: impl BufRead) -> Result<Self, String> {
        let mut text = String::new();
        source
            .take(LARGEST)
            .read_to_string(&mut text)
            .map_err(|error| error.to_string())?;
        for part in documents(&text) {
            self.add(part)?;
        }
        Ok(self)
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        // Obsoletes and translations have other fields and are not needed.
        let kind = text.lines().find_map(|line| line.strip_prefix("document:"));
        if !matches!(kind.map(str::trim), Some("modulemd" | "modulemd-defaults")) {
            return Ok(());
        }
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_anchors: 0, max_nodes: 2_000_000, max_events: 4_000_000, max_total_scalar_bytes: 64 * 1024 * 1024 },
            with_snippet: false,
        };
        let document: Document = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| format!("a module cannot be read: {error}"))?;
        match (document.document.as_str(), document.data) {
            ("modulemd-defaults", data) => {
                self.defaults.extend(data.module.zip(data.stream));
            }
            (_, data) => {
                let key = data.name.zip(data.stream);
                for rpm in data.artifacts.into_iter().flat_map(|list| list.rpms) {
                    self.streams.entry(rpm).or_default().extend(key.clone());
                }
            }
        }
        Ok(())
    }

    /// Returns the packages that are visible to a host without module settings.
    pub fn visible(&self, packages: Vec<Package>) -> Vec<Package> {
        let is_default = |streams: &BTreeSet<(String, String)>| {
            streams
                .iter()
                .any(|(module, stream)| self.defaults.get(module) == Some(stream))
        };
        let mut active = BTreeSet::new();
        for package in &packages {
            if self.streams.get(&package.nevra()).is_some_and(is_default) {
                active.insert(package.name.clone());
            }
        }
        let sees = |package: &Package| match self.streams.get(&package.nevra()) {
            Some(streams) => is_default(streams),
            None => !active.contains(&package.name),
        };
        packages.into_iter().filter(sees).collect()
    }
}

/// Splits a YAML stream into documents.
fn documents(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            parts.push(&text[from..at]);
            from = at + line.len();
        }
        at += line.len();
    }
    parts.push(&text[from..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::super::package_example;
    use super::*;

    const TEXT: &str = "---
document: modulemd-defaults
version: 1
data:
  module: tools
  stream: rhel8
...
---
document: modulemd
version: 2
data:
  name: tools
  stream: rhel8
  artifacts:
    rpms:
    - runc-0:1.1-1.noarch
...
---
document: modulemd
version: 2
data:
  name: tools
  stream: 4.10
  artifacts:
    rpms: [runc-0:2.0-1.noarch, only-0:1.0-1.noarch]
---
document: modulemd-translations
data: {anything: [1]}
";

    #[test]
    fn only_default_streams_are_seen_and_they_hide_others() {
        let modules = Modules::default().with(TEXT.as_bytes()).unwrap();
        let packages = [
            "runc 1.1-1",
            "runc 2.0-1",
            "runc 3.0-1",
            "only 1.0-1",
            "free 1.0-1",
        ];
        let packages = packages
            .map(|text| package_example(text, &[], &[]))
            .to_vec();
        let seen: Vec<String> = modules
            .visible(packages)
            .iter()
            .map(Package::label)
            .collect();
        assert_eq!(seen, ["runc-1.1-1.noarch", "free-1.0-1.noarch"]);
    }
}
