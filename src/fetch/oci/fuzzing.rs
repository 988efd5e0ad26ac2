//! Entry points of `tests/fuzz`.

use super::manifest::{parse_manifest, platform};
use crate::FetchError;
use kubexm_bundle::lock::{Descriptor, PlatformManifest};
use kubexm_types::{Arch, Digest, ImageRef};

/// The architecture that [`manifest`] selects.
const ARCH: Arch = Arch::Amd64;

pub fn manifest(bytes: &[u8]) -> Result<Option<PlatformManifest>, FetchError> {
    let name = "registry.example/team/app:1".parse::<ImageRef>();
    let name = name.map_err(|error| FetchError::resolve(error.to_string()))?;
    let manifest = parse_manifest(&name, bytes)?;
    if let Some(entries) = &manifest.manifests {
        let mut serving = entries.iter().filter(|entry| entry.serves(ARCH));
        serving.next().map(|entry| entry.descriptor());
        return Ok(None);
    }
    let top = Descriptor {
        media_type: manifest.media_type.clone().unwrap_or_default(),
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
    };
    platform(&name, Some(ARCH), top, &manifest).map(Some)
}
