//! From a bundle manifest's and a mirror file's text to their checked types.

use std::collections::BTreeMap;
use std::path::Path;

use super::manifest::{Manifest, Mirrors};
use super::package_source;
use super::problem::Problems;
use super::reader::{Fields, Reader};
use super::yaml::{self, Node, Value};
use super::{Arch, HostName, Version};

/// Reads and checks a bundle manifest.
///
/// # Errors
/// Everything that is wrong in it, at once.
pub fn load_manifest(path: &Path) -> Result<Manifest, Problems> {
    parse_manifest(&path.display().to_string(), &super::read_text(path)?)
}

/// Reads and checks the text of a manifest; `file` is its name in messages.
pub fn parse_manifest(file: &str, text: &str) -> Result<Manifest, Problems> {
    let root = yaml::parse(file, text)?;
    let reader = Reader::new("bundle");
    let top = reader.fields(&root, "");
    super::check_kind(&top, "Bundle");
    let name = top.section("metadata").and_then(|metadata| {
        metadata.required("name");
        let name = metadata.value::<HostName>("name");
        metadata.finish();
        name
    });
    let manifest = top.required("spec").and_then(|node| {
        let spec = reader.fields(node, "spec");
        let manifest = read_spec(&spec, name);
        spec.finish();
        manifest
    });
    top.required("metadata");
    top.finish();
    reader.finish(file, manifest)
}

fn read_spec(spec: &Fields<'_>, name: Option<HostName>) -> Option<Manifest> {
    let reader = spec.reader();
    let architectures: Vec<Arch> = spec.values("architectures");
    if let (Some(node), true) = (spec.required("architectures"), architectures.is_empty()) {
        not_empty(spec, node, "architectures", "as in [amd64]");
    }
    let kubernetes: Vec<Version> = spec.required("kubernetes").map_or_else(Vec::new, |node| {
        let fields = reader.fields(node, "spec.kubernetes");
        let versions = fields.values("versions");
        if let (Some(node), true) = (fields.required("versions"), versions.is_empty()) {
            not_empty(&fields, node, "versions", "as in [\"1.36.3\"]");
        }
        fields.finish();
        versions
    });
    let mut components = BTreeMap::new();
    if let Some(section) = spec.section("components") {
        for (component, node) in section.entries() {
            let items = reader.items(node, &section.path(component));
            let versions: Vec<Version> = items
                .iter()
                .filter_map(|(item, path)| reader.value(item, path))
                .collect();
            components.insert(component.to_owned(), versions);
        }
    }
    let mut network = BTreeMap::new();
    if let Some(section) = spec.section("network") {
        for (plugin, node) in section.entries() {
            if let Some(version) = reader.value(node, &section.path(plugin)) {
                network.insert(plugin.to_owned(), version);
            }
        }
    }
    let images = spec.values("images");
    let mut packages = Vec::new();
    if let Some(node) = spec.get("packages") {
        for (item, path) in reader.items(node, "spec.packages") {
            let fields = reader.fields(item, &path);
            packages.extend(package_source::read(&fields));
            fields.finish();
        }
    }
    Some(Manifest {
        name: name?.to_string(),
        architectures,
        kubernetes,
        components,
        network,
        images,
        packages,
    })
}

/// A list that says nothing would make a bundle with nothing in it.
pub(super) fn not_empty(fields: &Fields<'_>, node: &Node, name: &str, hint: &str) {
    let reader = fields.reader();
    if matches!(&node.value, Value::List(items) if items.is_empty()) {
        reader.problem(node, &fields.path(name), "is empty", Some(hint));
    }
}

/// Reads and checks a mirror file.
///
/// # Errors
/// Everything that is wrong in it, at once.
pub fn load_mirrors(path: &Path) -> Result<Mirrors, Problems> {
    parse_mirrors(&path.display().to_string(), &super::read_text(path)?)
}

/// Reads and checks the text of a mirror file; `file` is its name in messages.
///
/// # Errors
/// Everything that is wrong in it, at once.
pub fn parse_mirrors(file: &str, text: &str) -> Result<Mirrors, Problems> {
    let root = yaml::parse(file, text)?;
    let reader = Reader::new("mirrors");
    let top = reader.fields(&root, "");
    super::check_kind(&top, "Mirrors");
    let mirrors = Mirrors {
        downloads: top.text_map("downloads"),
        registries: top.text_map("registries"),
    };
    let is_web = |text: &str| text.starts_with("https://") || text.starts_with("http://");
    for (name, from_is_web) in [("downloads", true), ("registries", false)] {
        let Some(section) = top.section(name) else {
            continue;
        };
        for (from, node) in section.entries() {
            let to_is_web = matches!(&node.value, Value::Text(to) if is_web(to));
            if !to_is_web || (from_is_web && !is_web(from)) {
                let hint = "as in https://mirror.example/path";
                let message = "wants addresses with http:// or https://";
                reader.problem(node, &section.path(from), message, Some(hint));
            }
        }
    }
    top.finish();
    reader.finish(file, Some(mirrors))
}
