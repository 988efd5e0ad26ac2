//! From a bundle manifest's and a mirror file's text to their checked types.

use std::collections::BTreeMap;
use std::path::Path;

use super::manifest::{AptRepository, Manifest, Mirrors, PackageSource};
use super::problem::Problems;
use super::reader::{Fields, Reader};
use super::{HostName, Version, yaml};

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
    let reader = Reader::default();
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
    spec.required("architectures");
    let architectures = spec.values("architectures");
    let kubernetes: Vec<Version> = spec.required("kubernetes").map_or_else(Vec::new, |node| {
        let fields = reader.fields(node, "spec.kubernetes");
        fields.required("versions");
        let versions = fields.values("versions");
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
            packages.extend(read_packages(&fields));
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

fn read_packages(fields: &Fields<'_>) -> Option<PackageSource> {
    let reader = fields.reader();
    for name in ["distribution", "release", "repositories", "packages"] {
        // Asking marks the field as known even where a later one is missing.
        fields.get(name);
    }
    let mut repositories = Vec::new();
    let node = fields.required("repositories")?;
    for (item, path) in reader.items(node, &fields.path("repositories")) {
        let repository = reader.fields(item, &path);
        let url = repository
            .required("url")
            .and_then(|_| repository.value("url"));
        let suite = repository
            .required("suite")
            .and_then(|_| repository.text("suite"));
        let components = repository.values("components");
        let signed_by = repository
            .required("signedBy")
            .and_then(|_| repository.text("signedBy"));
        repository.finish();
        if let (Some(url), Some(suite), Some(signed_by)) = (url, suite, signed_by) {
            repositories.push(AptRepository {
                url,
                suite,
                components,
                signed_by: signed_by.into(),
            });
        }
    }
    Some(PackageSource {
        distribution: fields
            .required("distribution")
            .and_then(|_| fields.text("distribution"))?,
        release: fields
            .required("release")
            .and_then(|_| fields.text("release"))?,
        repositories,
        packages: fields
            .required("packages")
            .map(|_| fields.values("packages"))?,
    })
}

/// Reads and checks a mirror file.
///
/// # Errors
/// Everything that is wrong in it, at once.
pub fn load_mirrors(path: &Path) -> Result<Mirrors, Problems> {
    let file = path.display().to_string();
    let root = yaml::parse(&file, &super::read_text(path)?)?;
    let reader = Reader::default();
    let top = reader.fields(&root, "");
    super::check_kind(&top, "Mirrors");
    let mirrors = Mirrors {
        downloads: top.text_map("downloads"),
        registries: top.text_map("registries"),
    };
    for (name, map) in [
        ("downloads", &mirrors.downloads),
        ("registries", &mirrors.registries),
    ] {
        for (from, to) in map {
            let is_web = |text: &str| text.starts_with("https://") || text.starts_with("http://");
            if !is_web(to) || (name == "downloads" && !is_web(from)) {
                let path = format!("{name}.{from}");
                reader.problem(
                    top.node(),
                    &path,
                    "wants addresses with http:// or https://",
                    None,
                );
            }
        }
    }
    top.finish();
    reader.finish(&file, Some(mirrors))
}
