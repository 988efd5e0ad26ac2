//! Exports images as an OCI image layout
//! (<https://github.com/opencontainers/image-spec/blob/main/image-layout.md>).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::{Content, Run, write};
use crate::format::oci_layout::{INDEX_TYPE, LAYOUT, REF_NAME};
use crate::lock::{Descriptor, LockedImage};
use crate::{Bundle, BundleError};
use kubexm_types::Digest;

/// Annotation: the name with which containerd imports an image.
pub(super) const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// Annotation: the role of a manifest for `cosign verify --local-image`.
const COSIGN_KIND: &str = "kind";

/// Writes images as an OCI image layout into a new or empty directory, or into a tar if the path ends in
/// `.tar`. Indexes stay as published, even if they name platforms that the bundle does not contain.
///
/// # Errors
/// The bundle is damaged, or the path cannot be written.
pub fn oci_layout(
    path: &Path,
    bundle: &Bundle,
    images: &[&LockedImage],
    run: Run<'_>,
) -> Result<(), BundleError> {
    let manifests: Vec<Value> = images.iter().flat_map(|image| entries(image)).collect();
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests});
    let content = Content {
        documents: vec![
            ("oci-layout".to_owned(), LAYOUT.into()),
            ("index.json".to_owned(), index.to_string().into_bytes()),
        ],
        blobs: images.iter().flat_map(|image| blobs(image)).collect(),
    };
    write(path, &content, bundle, run)
}

/// Returns the index entries of an image and its signature. containerd imports every entry with a name,
/// and fails if it cannot unpack it. Signatures have the annotation of `cosign save` and no name. Referrers
/// name their image themselves.
fn entries(image: &LockedImage) -> Vec<Value> {
    let entry = |top: &Descriptor, annotations: Value| {
        json!({
            "mediaType": top.media_type, "digest": top.digest, "size": top.size,
            "annotations": annotations,
        })
    };
    let name = &image.name;
    let mut named = json!({REF_NAME: name});
    if !image.is_artifact() {
        named[CONTAINERD_NAME] = json!(name);
    }
    let Some(signature) = &image.signature else {
        return vec![entry(&image.manifest, named)];
    };
    let single = image.platforms.iter().any(|p| p.manifest == image.manifest);
    named[COSIGN_KIND] = if single {
        "dev.cosignproject.cosign/image".into()
    } else {
        "dev.cosignproject.cosign/imageIndex".into()
    };
    let marked = match &signature.referrers {
        None => json!({COSIGN_KIND: "dev.cosignproject.cosign/sigs"}),
        Some(_) => json!({}),
    };
    vec![
        entry(&image.manifest, named),
        entry(&signature.manifest, marked),
    ]
}

/// Returns all blobs of an image in the bundle.
fn blobs(image: &LockedImage) -> BTreeMap<Digest, u64> {
    let below = image.platforms.iter().flat_map(|p| p.everything());
    std::iter::once(&image.manifest)
        .chain(below)
        .chain(image.signature_blobs())
        .map(|blob| (blob.digest, blob.size))
        .collect()
}
