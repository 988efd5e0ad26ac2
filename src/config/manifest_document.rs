//! Reads bundle manifests.

use std::collections::BTreeMap;
use std::path::Path;

use super::artifact_document;
use super::cluster::{Addon, KubernetesKind};
use super::cluster_document::KUBERNETES_KINDS;
use super::manifest::Manifest;
use super::package_source;
use super::problem::Problems;
use super::reader::{Fields, Reader};
use super::signature_document;
use super::yaml::{self, Value};
use kubexm_types::artifact::ArtifactLocation;
use kubexm_types::signature_policy::SignedBy;
use kubexm_types::{Arch, HostName, Version};

const START: &str = "kubexm config init bundle > bundle.yaml";

/// Reads and checks a bundle manifest.
///
/// # Errors
/// All problems of the file.
pub fn load_manifest(path: &Path) -> Result<Manifest, Problems> {
    let mut manifest =
        parse_manifest(&path.display().to_string(), &super::read_text(path, START)?)?;
    // Relative paths start at the directory of the manifest, not at the working directory.
    let folder = path.parent().unwrap_or(Path::new(""));
    for artifact in &mut manifest.artifacts {
        if let ArtifactLocation::Path(file) = &mut artifact.location {
            *file = folder.join(&*file);
        }
        for values in &mut artifact.values {
            *values = folder.join(&*values);
        }
    }
    for list in &mut manifest.images_from {
        *list = folder.join(&*list);
        manifest.images.extend(super::load_image_list(list)?);
    }
    for policy in &mut manifest.signatures {
        match policy.rule.signed_by_mut() {
            Some(SignedBy::Keys(keys)) => {
                for key in keys {
                    *key = folder.join(&*key);
                }
            }
            Some(SignedBy::Identities { trusted_root, .. }) => {
                *trusted_root = trusted_root.take().map(|root| folder.join(root));
            }
            None => {}
        }
    }
    Ok(manifest)
}

/// Reads and checks the text of a bundle manifest; `file` is its name in messages.
///
/// # Errors
/// All problems of the text.
pub fn parse_manifest(file: &str, text: &str) -> Result<Manifest, Problems> {
    let root = yaml::parse(file, text)?;
    super::kind::refuse_other(file, &root, super::DocumentKind::Bundle)?;
    let reader = Reader::new("bundle");
    let top = reader.fields(&root, "");
    super::check_kind(&top, "Bundle");
    let name = top.section("metadata").and_then(|metadata| {
        metadata.required("name");
        let name = metadata.value::<HostName>("name");
        metadata.finish();
        name
    });
    let mut manifest = top.required("spec").and_then(|node| {
        let spec = reader.fields(node, "spec");
        let manifest = read_spec(&spec, name);
        spec.finish();
        manifest
    });
    top.required("metadata");
    top.finish();
    if let Some(manifest) = &mut manifest {
        manifest.notices = reader.take_notices(file);
    }
    reader.finish(file, manifest)
}

fn read_spec(spec: &Fields<'_>, name: Option<HostName>) -> Option<Manifest> {
    let reader = spec.reader();
    let architectures: Vec<Arch> = spec.values("architectures");
    spec.required("architectures");
    not_empty(spec, "architectures", "as in [amd64]");
    let mut kubernetes_kinds = Vec::new();
    let mut conformance = false;
    let kubernetes: Vec<Version> = spec.get("kubernetes").map_or_else(Vec::new, |node| {
        let fields = reader.fields(node, "spec.kubernetes");
        let versions = fields.values("versions");
        fields.required("versions");
        not_empty(&fields, "versions", "as in [\"1.36.3\"]");
        let kinds = fields.choices("types", KUBERNETES_KINDS).into_iter();
        kubernetes_kinds = kinds.filter_map(KubernetesKind::named).collect();
        conformance = fields.flag("conformance", false);
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
    let network = read_versions(spec.section("network"));
    let load_balancer = read_versions(spec.section("loadBalancer"));
    let addons = read_addons(spec, &components);
    let images = spec.values("images");
    let oci_artifacts = spec.values("artifacts");
    let images_from: Vec<String> = spec.values("imagesFrom");
    let image_paths = spec.sections("imagePaths", artifact_document::image_path);
    let packages = spec.sections("packages", package_source::read);
    let artifacts = artifact_document::read(spec);
    let signatures = signature_document::read(spec);
    Some(Manifest {
        name: name?.to_string(),
        architectures,
        kubernetes,
        kubernetes_kinds,
        conformance,
        components,
        network,
        load_balancer,
        addons,
        images,
        oci_artifacts,
        images_from: images_from.into_iter().map(Into::into).collect(),
        image_paths,
        packages,
        artifacts,
        signatures,
        notices: Vec::new(),
    })
}

/// Reads names of the catalog with one version each.
fn read_versions(section: Option<Fields<'_>>) -> BTreeMap<String, Version> {
    let mut versions = BTreeMap::new();
    if let Some(section) = section {
        for (name, node) in section.entries() {
            if let Some(version) = section.reader().value(node, &section.path(name)) {
                versions.insert(name.to_owned(), version);
            }
        }
    }
    versions
}

/// Reads the add-ons. Helm installs them, and finds their images.
fn read_addons(
    spec: &Fields<'_>,
    components: &BTreeMap<String, Vec<Version>>,
) -> Vec<(Addon, Version)> {
    let Some(section) = spec.section("addons") else {
        return Vec::new();
    };
    let version = |addon: &Addon| Some((*addon, section.value(addon.name())?));
    let addons: Vec<(Addon, Version)> = Addon::ALL.iter().filter_map(version).collect();
    section.finish();
    if !addons.is_empty() && !components.contains_key("helm") {
        let hint = "add the version of helm to spec.components, as in helm: \"4.3.1\"";
        spec.problem(
            "addons",
            "helm installs add-ons, and spec.components does not have it",
            Some(hint),
        );
    }
    addons
}

/// Refuses an empty list.
pub(super) fn not_empty(fields: &Fields<'_>, name: &'static str, hint: &str) {
    let list = fields.get(name).map(|node| &node.value);
    if matches!(list, Some(Value::List(items)) if items.is_empty()) {
        fields.problem(name, "is empty", Some(hint));
    }
}
