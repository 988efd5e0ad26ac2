//! Parsing and validation of a registry's manifests.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;

use crate::FetchError;
use kubexm_bundle::lock::{Descriptor, PlatformManifest};
use kubexm_types::{Arch, Digest, ImageRef, Message, Untrusted};

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
    pub platform: Option<Platform>,
}

/// A platform of an image, in an index or in a configuration.
#[derive(Deserialize, Clone)]
pub(super) struct Platform {
    os: String,
    architecture: String,
    #[serde(default)]
    variant: String,
}

impl Platform {
    /// Whether every host of an architecture runs it. Names and variants are compared as containerd does
    /// (<https://github.com/containerd/platforms/blob/main/database.go>).
    pub fn serves(&self, arch: Arch) -> bool {
        let baseline: &[&str] = match arch {
            Arch::Amd64 => &["", "v1"],
            Arch::Arm64 => &["", "8", "v8"],
        };
        let is_of_arch = match self.architecture.to_lowercase().as_str() {
            "x86-64" => arch == Arch::Amd64,
            name => Arch::parse(name) == Ok(arch),
        };
        let variant = self.variant.to_lowercase();
        self.os.eq_ignore_ascii_case("linux") && is_of_arch && baseline.contains(&variant.as_str())
    }

    /// Whether it names a platform. BuildKit's attestations have `unknown/unknown`.
    pub fn is_known(&self) -> bool {
        self.os != "unknown"
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |text: &str| Untrusted::one_line(text, 40).to_string();
        write!(f, "{}/{}", part(&self.os), part(&self.architecture))?;
        if self.variant.is_empty() {
            Ok(())
        } else {
            write!(f, "/{}", part(&self.variant))
        }
    }
}

impl Entry {
    pub fn descriptor(&self) -> Descriptor {
        Descriptor {
            media_type: self.media_type.clone(),
            digest: self.digest,
            size: self.size,
        }
    }

    pub fn has_type_of(&self, types: &[&str]) -> bool {
        types.contains(&self.media_type.as_str())
    }

    pub fn is_index(&self) -> bool {
        self.has_type_of(&INDEX_TYPES)
    }

    /// Whether it is an index or a manifest.
    pub fn is_image(&self) -> bool {
        self.is_index() || self.has_type_of(&MANIFEST_TYPES)
    }

    /// Whether it names a platform that every host of an architecture runs.
    pub fn serves(&self, arch: Arch) -> bool {
        self.platform.as_ref().is_some_and(|p| p.serves(arch))
    }

    /// Whether it names this platform or none.
    pub fn may_serve(&self, arch: Arch) -> bool {
        self.platform.as_ref().is_none_or(|p| p.serves(arch))
    }
}

/// Parses a manifest.
pub(super) fn parse_manifest(name: &ImageRef, bytes: &[u8]) -> Result<Manifest, FetchError> {
    let wrong = |reason: Message| FetchError::Content {
        what: name.to_string(),
        reason,
    };
    if bytes.len() > LARGEST_MANIFEST {
        return Err(wrong("its manifest is larger than 4 MiB".into()));
    }
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|error| wrong(format!("its manifest cannot be read: {error}").into()))?;
    let known = |kind: &str| INDEX_TYPES.contains(&kind) || MANIFEST_TYPES.contains(&kind);
    match &manifest.media_type {
        Some(kind) if !known(kind) => {
            let kind = Untrusted::one_line(kind, 120);
            let reason = format!(
                "its manifest is a '{kind}', and kubexm reads those of OCI and of Docker's schema 2 only"
            );
            Err(wrong(Message::new(reason).hint(
                "choose another tag, or ask its publisher for one of these formats",
            )))
        }
        _ => Ok(manifest),
    }
}

/// Returns the error for an image without this architecture, with the list of those that it has.
pub(super) fn no_platform(name: &ImageRef, arch: Arch, offered: &BTreeSet<String>) -> FetchError {
    let offered: Vec<&str> = offered.iter().map(String::as_str).collect();
    let offered = match offered.as_slice() {
        [] => "its index does not name a platform".to_owned(),
        offered => format!("it has {}", offered.join(", ")),
    };
    FetchError::Content {
        what: name.to_string(),
        reason: Message::new(format!("has no linux/{arch}; {offered}")).hint(
            "choose an image for this architecture, or leave the architecture out of spec.architectures",
        ),
    }
}

/// Returns one platform of an image, or one manifest of another artifact, with the blobs of the manifest.
pub(super) fn platform(
    name: &ImageRef,
    arch: Option<Arch>,
    manifest: Descriptor,
    content: &Manifest,
) -> Result<PlatformManifest, FetchError> {
    let wrong = |reason: &str| FetchError::Content {
        what: name.to_string(),
        reason: reason.to_owned().into(),
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
        indexes: Vec::new(),
        manifest,
        blobs,
    })
}
