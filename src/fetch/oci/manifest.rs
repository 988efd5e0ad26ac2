//! Parsing and validation of a registry's manifests.

use serde::Deserialize;

use crate::FetchError;
use kubexm_bundle::lock::{Descriptor, PlatformManifest};
use kubexm_types::{Arch, Digest, ImageRef};

/// Supported media types, OCI's and Docker's.
pub(super) const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
pub(super) const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// Maximum size of a manifest, in bytes, as in registries.
pub(super) const LARGEST_MANIFEST: usize = 4 * 1024 * 1024;

/// The fields of a manifest or an index that kubexm uses.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub media_type: Option<String>,
    pub manifests: Option<Vec<Entry>>,
    pub config: Option<Entry>,
    layers: Option<Vec<Entry>>,
}

/// A descriptor in a manifest.
#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    media_type: String,
    pub digest: Digest,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize, Clone)]
struct Platform {
    os: String,
    architecture: String,
}

impl Entry {
    pub fn descriptor(&self) -> Descriptor {
        Descriptor {
            media_type: self.media_type.clone(),
            digest: self.digest,
            size: self.size,
        }
    }
}

/// Parses a manifest.
pub(super) fn parse_manifest(name: &ImageRef, bytes: &[u8]) -> Result<Manifest, FetchError> {
    let wrong = |reason: String| FetchError::Content {
        what: name.to_string(),
        reason,
    };
    if bytes.len() > LARGEST_MANIFEST {
        return Err(wrong("its manifest is larger than 4 MiB".to_owned()));
    }
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|error| wrong(format!("its manifest cannot be read: {error}")))?;
    let known = |kind: &str| INDEX_TYPES.contains(&kind) || MANIFEST_TYPES.contains(&kind);
    match &manifest.media_type {
        Some(kind) if !known(kind) => Err(wrong(format!(
            "its manifest is a '{kind}', which kubexm does not support"
        ))),
        _ => Ok(manifest),
    }
}

/// Returns the entry of an index for an architecture.
pub(super) fn pick<'a>(
    name: &ImageRef,
    entries: &'a [Entry],
    arch: Arch,
) -> Result<&'a Entry, FetchError> {
    let fits = |entry: &&Entry| {
        entry
            .platform
            .as_ref()
            .is_some_and(|p| p.os == "linux" && p.architecture == arch.name())
    };
    entries.iter().find(fits).ok_or_else(|| {
        let platforms = entries.iter().filter_map(|entry| entry.platform.as_ref());
        let offered: Vec<String> = platforms
            .map(|p| format!("{}/{}", p.os, p.architecture))
            .collect();
        no_platform(name, arch, &offered)
    })
}

/// Returns the error for an image without this architecture, with the list of those that it has.
pub(super) fn no_platform(name: &ImageRef, arch: Arch, offered: &[String]) -> FetchError {
    FetchError::Content {
        what: name.to_string(),
        reason: format!("has no linux/{arch}; it has {}", offered.join(", ")),
    }
}

/// Returns one platform of an image with the blobs of its manifest.
pub(super) fn platform(
    name: &ImageRef,
    arch: Arch,
    manifest: Descriptor,
    content: &Manifest,
) -> Result<PlatformManifest, FetchError> {
    let wrong = |reason: &str| FetchError::Content {
        what: name.to_string(),
        reason: reason.to_owned(),
    };
    let config = content
        .config
        .as_ref()
        .ok_or_else(|| wrong("its manifest has no config"))?;
    let layers = content
        .layers
        .as_ref()
        .ok_or_else(|| wrong("its manifest has no layers"))?;
    if layers.iter().any(|layer| {
        layer.media_type.contains("foreign") || layer.media_type.contains("nondistributable")
    }) {
        return Err(wrong("it has layers that may not be distributed"));
    }
    let blobs = std::iter::once(config)
        .chain(layers)
        .map(Entry::descriptor)
        .collect();
    Ok(PlatformManifest {
        arch,
        manifest,
        blobs,
    })
}
