//! Exports images as an archive for `docker load`, in the format of `docker save` since Docker 25: an OCI
//! image layout with an additional `manifest.json`
//! (<https://github.com/moby/docker-image-spec/blob/main/spec.md>). Layers stay compressed as published, so
//! that their digests stay the same.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::layout::CONTAINERD_NAME;
use super::{Content, Run, platform, write};
use crate::format::oci_layout::{INDEX_TYPE, LAYOUT, REF_NAME, blob_path};
use crate::lock::{LockedImage, PlatformManifest};
use crate::{Bundle, BundleError};
use kubexm_types::{Arch, Digest};

/// Writes images for one architecture as a tar for `docker load`.
///
/// # Errors
/// An image has no such architecture, or is another artifact, the bundle is damaged, or the path cannot be written.
pub fn docker_archive(
    path: &Path,
    bundle: &Bundle,
    images: &[&LockedImage],
    arch: Arch,
    run: Run<'_>,
) -> Result<(), BundleError> {
    let mut loads = Vec::new();
    let mut manifests = Vec::new();
    let mut repositories: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut blobs = BTreeMap::new();
    for image in images {
        let platform = platform(image, arch)?;
        let [config, layers @ ..] = &platform.blobs[..] else {
            let reason = format!("the image {} has no configuration", image.name);
            let path = bundle.path().display().to_string();
            return Err(BundleError::Damaged {
                path,
                reason: reason.into(),
            });
        };
        blobs.insert(platform.manifest.digest, platform.manifest.size);
        blobs.extend(platform.blobs.iter().map(|blob| (blob.digest, blob.size)));
        let layer_paths: Vec<String> = layers.iter().map(|l| blob_path(&l.digest)).collect();
        loads.push(json!({
            "Config": blob_path(&config.digest),
            "RepoTags": tagged(image).into_iter().collect::<Vec<_>>(),
            "Layers": layer_paths,
        }));
        manifests.push(entry(image, platform, arch));
        if let (Some(tag), Some(top)) = (image.name.tag(), layers.last()) {
            let name = format!("{}/{}", image.name.registry(), image.name.repository());
            let tags = repositories.entry(name).or_default();
            tags.insert(tag.to_owned(), top.digest.hex());
        }
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests});
    let document = |name: &str, content: Value| (name.to_owned(), content.to_string().into_bytes());
    let content = Content {
        documents: vec![
            document("manifest.json", Value::Array(loads)),
            document("repositories", json!(repositories)),
            ("oci-layout".to_owned(), LAYOUT.into()),
            document("index.json", index),
        ],
        blobs,
    };
    write(path, &content, bundle, run)
}

/// Returns the name for Docker, which does not accept a digest as a name.
fn tagged(image: &LockedImage) -> Option<String> {
    let name = &image.name;
    let tag = name.tag()?;
    Some(format!("{}/{}:{tag}", name.registry(), name.repository()))
}

/// Returns the index entry of the platform's manifest. An archive for one architecture does not need the
/// image's index.
fn entry(image: &LockedImage, platform: &PlatformManifest, arch: Arch) -> Value {
    let manifest = &platform.manifest;
    let digest: Digest = manifest.digest;
    json!({
        "mediaType": manifest.media_type, "digest": digest, "size": manifest.size,
        "platform": {"architecture": arch.name(), "os": "linux"},
        "annotations": {REF_NAME: image.name.tag().unwrap_or_default(), CONTAINERD_NAME: image.name},
    })
}
