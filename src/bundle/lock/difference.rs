//! The differences between two locks.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::lock::Lock;
use kubexm_types::{Arch, Digest};

/// The kind of an item in a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ItemKind {
    /// A downloaded file of a component.
    File,
    Image,
    /// An artifact in an OCI registry that is not an image.
    OciArtifact,
    /// An OS package.
    Package,
    /// An artifact of the user.
    Artifact,
    /// A publisher's signature of a file or an image.
    Signature,
}

impl ItemKind {
    /// Returns the plural for messages.
    pub fn plural(self) -> &'static str {
        match self {
            Self::File => "files",
            Self::Image => "images",
            Self::OciArtifact => "OCI artifacts",
            Self::Package => "packages",
            Self::Artifact => "charts, manifests and other files",
            Self::Signature => "signatures",
        }
    }
}

/// An item that differs between two locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    pub kind: ItemKind,
    /// The name of the item, without its version.
    pub name: String,
    /// The version or digest in the first lock; `None` if only the second lock has the item.
    pub before: Option<String>,
    /// The version or digest in the second lock; `None` if only the first lock has the item.
    pub after: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match (&self.before, &self.after) {
            (None, Some(after)) => write!(f, "+ {name} {after}"),
            (Some(before), None) => write!(f, "- {name} {before}"),
            (Some(before), Some(after)) => write!(f, "~ {name} {before} -> {after}"),
            (None, None) => write!(f, "  {name}"),
        }
    }
}

/// Kind, name and architecture of an item. Several versions of an item have the same key.
type Key = (ItemKind, String);

/// One version of an item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ItemVersion {
    /// The version or the tag; the signer of a signature. Empty if there is none.
    version: String,
    /// The digest and other values that differ if the content differs.
    content: String,
}

impl ItemVersion {
    /// Returns the item's name and text if only one lock has this version, or if only its content changed.
    /// The tag of an image is a part of its name.
    fn name_and_text(&self, kind: ItemKind, name: &str) -> (String, String) {
        match (kind, self.version.is_empty()) {
            (_, true) => (name.to_owned(), self.content.clone()),
            (ItemKind::Image | ItemKind::OciArtifact, false) => {
                (format!("{name}:{}", self.version), self.content.clone())
            }
            (_, false) => (
                name.to_owned(),
                format!("{} ({})", self.version, self.content),
            ),
        }
    }
}

/// Returns all differences by name; none if the locks have the same content.
///
/// If one version of an item is replaced by another one, this is one difference.
pub fn differences(first: &Lock, second: &Lock) -> Vec<Difference> {
    let (mut before, after) = (items(first), items(second));
    let mut differences = Vec::new();
    for ((kind, name), new) in after {
        let old = before.remove(&(kind, name.clone())).unwrap_or_default();
        compare(kind, &name, old, new, &mut differences);
    }
    for ((kind, name), old) in before {
        compare(kind, &name, old, Vec::new(), &mut differences);
    }
    differences.sort_by(|a, b| a.name.cmp(&b.name));
    differences
}

/// Compares the versions of one item. Versions in both locks are not reported. The others are paired in
/// ascending order.
fn compare(
    kind: ItemKind,
    name: &str,
    old: Vec<ItemVersion>,
    new: Vec<ItemVersion>,
    differences: &mut Vec<Difference>,
) {
    let mut removed: Vec<_> = old.iter().filter(|one| !new.contains(one)).collect();
    let mut added: Vec<_> = new.iter().filter(|one| !old.contains(one)).collect();
    let mut push = |before: Option<&ItemVersion>, after: Option<&ItemVersion>| {
        let differ = before.zip(after).filter(|(a, b)| a.version != b.version);
        differences.push(match differ {
            Some((before, after)) => Difference {
                kind,
                name: name.to_owned(),
                before: Some(before.version.clone()),
                after: Some(after.version.clone()),
            },
            None => {
                let text = |one: &ItemVersion| one.name_and_text(kind, name).1;
                let full = before.or(after);
                Difference {
                    kind,
                    name: full.map_or_else(String::new, |one| one.name_and_text(kind, name).0),
                    before: before.map(text),
                    after: after.map(text),
                }
            }
        });
    };
    // The same version with other content.
    removed.retain(|before| {
        let same = added
            .iter()
            .position(|after| after.version == before.version);
        if let Some(at) = same {
            push(Some(before), Some(added.remove(at)));
        }
        same.is_none()
    });
    let pairs = removed.len().min(added.len());
    for (before, after) in removed.iter().zip(&added) {
        push(Some(before), Some(after));
    }
    for before in &removed[pairs..] {
        push(Some(before), None);
    }
    for after in &added[pairs..] {
        push(None, Some(after));
    }
}

/// Returns the versions of all items, in ascending order.
fn items(lock: &Lock) -> BTreeMap<Key, Vec<ItemVersion>> {
    let mut items: BTreeMap<Key, Vec<ItemVersion>> = BTreeMap::new();
    let mut add = |kind, name: String, version: &str, content: String| {
        let (version, versions) = (version.to_owned(), items.entry((kind, name)).or_default());
        versions.push(ItemVersion { version, content });
    };
    // Semantic versions in ascending order; the text would order 1.10 before 1.9.
    let mut files: Vec<_> = lock.files.iter().collect();
    files.sort_by(|a, b| a.version.cmp(&b.version));
    for file in files {
        let (version, name) = (
            file.version.to_string(),
            file_name(&file.component, file.arch),
        );
        if let Some(signature) = &file.signature {
            let (by, content) = (signature.by.to_string(), &signature.signature.digest);
            let name = format!("signature of {name}");
            add(ItemKind::Signature, name, &by, short(content));
        }
        add(ItemKind::File, name, &version, short(&file.digest));
    }
    for image in &lock.images {
        let repository = format!("{}/{}", image.name.registry(), image.name.repository());
        let tag = image.name.tag().unwrap_or_default();
        if let Some(signature) = &image.signature {
            let (by, content) = (signature.by.to_string(), &signature.manifest.digest);
            let name = format!("signature of {repository}");
            add(ItemKind::Signature, name, &by, short(content));
        }
        let digest = short(&image.manifest.digest);
        if image.is_artifact() {
            let name = format!("artifact {repository}");
            add(ItemKind::OciArtifact, name, tag, digest);
            continue;
        }
        let arches: Vec<&str> = image.arches().map(|arch| arch.name()).collect();
        let content = format!("{digest} ({})", arches.join(", "));
        add(ItemKind::Image, format!("image {repository}"), tag, content);
    }
    for artifact in &lock.artifacts {
        let name = format!("{} {}", artifact.kind, artifact.name);
        let version = artifact.version.as_deref().unwrap_or_default();
        add(ItemKind::Artifact, name, version, short(&artifact.digest));
    }
    for set in &lock.packages {
        for package in &set.packages {
            let place = format!("{} {} {}", set.distribution, set.release, set.arch);
            let name = format!("package {} {place}", package.name);
            add(
                ItemKind::Package,
                name,
                &package.version,
                short(&package.digest),
            );
        }
    }
    items
}

fn file_name(component: &str, arch: Arch) -> String {
    format!("file {component} {arch}")
}

fn short(digest: &Digest) -> String {
    digest.hex()[..12].to_owned()
}
