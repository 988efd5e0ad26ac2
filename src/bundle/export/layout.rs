//! An OCI image layout
//! (<https://github.com/opencontainers/image-spec/blob/main/image-layout.md>) of images.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::{Content, Run, write};
use crate::bundle::layout::{INDEX_TYPE, LAYOUT, REF_NAME};
use crate::bundle::lock::LockedImage;
use crate::bundle::{Bundle, BundleError};
use crate::spec::Digest;

/// The name by which containerd and what is built on it import an image.
pub(super) const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// Writes images as an OCI image layout: into a folder that is not there yet or empty, or as a tar
/// where the path ends in `.tar`. Indexes keep their bytes and digests, also where they name platforms
/// that the bundle does not carry.
///
/// # Errors
/// The bundle is damaged, or the path cannot be written.
pub fn oci_layout(
    path: &Path,
    bundle: &Bundle,
    images: &[&LockedImage],
    run: Run<'_>,
) -> Result<(), BundleError> {
    let manifests: Vec<Value> = images.iter().map(|image| entry(image)).collect();
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

fn entry(image: &LockedImage) -> Value {
    let top = &image.manifest;
    json!({
        "mediaType": top.media_type, "digest": top.digest, "size": top.size,
        "annotations": {REF_NAME: image.name, CONTAINERD_NAME: image.name},
    })
}

/// Everything that the bundle has of an image.
fn blobs(image: &LockedImage) -> BTreeMap<Digest, u64> {
    let below = image
        .platforms
        .iter()
        .flat_map(|platform| std::iter::once(&platform.manifest).chain(&platform.blobs));
    std::iter::once(&image.manifest)
        .chain(below)
        .map(|blob| (blob.digest, blob.size))
        .collect()
}
