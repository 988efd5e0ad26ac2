//! The manifests of an image's platforms: in its index, in an index below it, or the only manifest
//! (<https://github.com/opencontainers/image-spec/blob/main/image-index.md>).

use std::collections::{BTreeSet, VecDeque};

use super::Puller;
use super::manifest::{
    Entry, INDEX_TYPES, MANIFEST_TYPES, Manifest, Platform, no_platform, parse_manifest, platform,
};
use crate::FetchError;
use kubexm_bundle::lock::{ChecksumSource, Descriptor, LockedImage, PlatformManifest};
use kubexm_types::{Arch, Digest, ImageRef, Message};

/// Maximum number of indexes and manifests that are read to find a platform.
const MOST_READ: usize = 32;
/// Media types of images' configurations. Other manifests in an index are artifacts, such as attestations.
const CONFIG_TYPES: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];

/// The manifests of a name that a bundle has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parts<'a> {
    /// Those of an image for these architectures.
    Of(&'a [Arch]),
    /// All: the name is of an artifact that is not a container image.
    All,
}

/// An index in the search for a platform, with the indexes above it that are below the top manifest.
struct Level {
    entries: Vec<Entry>,
    indexes: Vec<Descriptor>,
}

impl Puller {
    /// Resolves the manifests below the top manifest.
    pub(super) async fn parts(
        &self,
        name: &ImageRef,
        parts: Parts<'_>,
        (bytes, digest): (Vec<u8>, Digest),
        checksum: Option<ChecksumSource>,
    ) -> Result<LockedImage, FetchError> {
        let top = parse_manifest(name, &bytes)?;
        // Documents without a media type are OCI's; Docker's have always had one.
        let media_type = top.media_type.clone().unwrap_or_else(|| {
            let types = if top.manifests.is_some() {
                INDEX_TYPES
            } else {
                MANIFEST_TYPES
            };
            types[0].to_owned()
        });
        let descriptor = Descriptor {
            media_type,
            digest,
            size: bytes.len() as u64,
        };
        let platforms = match parts {
            Parts::Of(arches) => self.platforms(name, arches, &descriptor, &top).await?,
            Parts::All => self.all_manifests(name, descriptor.clone(), top).await?,
        };
        Ok(LockedImage {
            name: name.clone(),
            manifest: descriptor,
            platforms,
            signature: None,
            checksum,
            unsigned: None,
        })
    }

    /// Finds the manifests of an image for these architectures.
    async fn platforms(
        &self,
        name: &ImageRef,
        arches: &[Arch],
        descriptor: &Descriptor,
        top: &Manifest,
    ) -> Result<Vec<PlatformManifest>, FetchError> {
        let mut platforms = Vec::new();
        match &top.manifests {
            None => {
                // A single manifest has no platform; its configuration has it.
                let found = self.platform_of(name, top).await?;
                let found = found.ok_or_else(|| FetchError::Content {
                    what: name.to_string(),
                    reason: Message::new("its configuration does not name a platform").hint(
                        "name an image: another artifact belongs in spec.artifacts, and a chart that is installed in spec.charts",
                    ),
                })?;
                if let Some(lacking) = arches.iter().find(|wanted| !found.serves(**wanted)) {
                    let offered = BTreeSet::from([found.to_string()]);
                    return Err(no_platform(name, *lacking, &offered));
                }
                for arch in arches {
                    platforms.push(platform(name, Some(*arch), descriptor.clone(), top)?);
                }
            }
            Some(entries) => {
                for arch in arches {
                    platforms.push(self.below(name, *arch, entries).await?);
                }
            }
        }
        Ok(platforms)
    }

    /// Finds the manifest of a platform below an index. An entry that names the platform wins over one without a
    /// platform, and an upper index over a lower one, as in container runtimes.
    async fn below(
        &self,
        name: &ImageRef,
        arch: Arch,
        top: &[Entry],
    ) -> Result<PlatformManifest, FetchError> {
        let mut offered = BTreeSet::new();
        let mut read = 0;
        let mut levels = VecDeque::from([Level {
            entries: top.to_vec(),
            indexes: Vec::new(),
        }]);
        while let Some(Level { entries, indexes }) = levels.pop_front() {
            let (named, others): (Vec<_>, Vec<_>) = entries
                .into_iter()
                .filter(|entry| entry.is_image())
                .partition(|entry| entry.platform.is_some() && !entry.is_index());
            let serving = named.iter().find(|entry| entry.serves(arch));
            let fitting = others.into_iter().filter(|entry| entry.may_serve(arch));
            for entry in serving.cloned().into_iter().chain(fitting) {
                read += 1;
                if read > MOST_READ {
                    return Err(FetchError::Content {
                        what: name.to_string(),
                        reason: format!("it has more than {MOST_READ} indexes and manifests")
                            .into(),
                    });
                }
                let (bytes, _) = self.manifest(name, Some(entry.digest)).await?;
                let content = parse_manifest(name, &bytes)?;
                if let Some(entries) = content.manifests {
                    let indexes = [indexes.as_slice(), &[entry.descriptor()]].concat();
                    levels.push_back(Level { entries, indexes });
                    continue;
                }
                let is_named = entry.serves(arch);
                let found = if is_named {
                    None
                } else {
                    self.platform_of(name, &content).await?
                };
                if is_named || found.as_ref().is_some_and(|found| found.serves(arch)) {
                    let found = platform(name, Some(arch), entry.descriptor(), &content)?;
                    return Ok(PlatformManifest { indexes, ..found });
                }
                offered.extend(found.map(|found| found.to_string()));
            }
            let named = named.iter().filter_map(|entry| entry.platform.as_ref());
            offered.extend(named.filter(|p| p.is_known()).map(Platform::to_string));
        }
        Err(no_platform(name, arch, &offered))
    }

    /// Reads the platform in the configuration of a manifest; `None` if it is not an image's.
    async fn platform_of(
        &self,
        name: &ImageRef,
        manifest: &Manifest,
    ) -> Result<Option<Platform>, FetchError> {
        let config = manifest.config.as_ref();
        let Some(config) = config.filter(|config| config.has_type_of(&CONFIG_TYPES)) else {
            return Ok(None);
        };
        self.blob(name, &config.descriptor()).await?;
        let bytes = self.http.cache().read(&config.digest)?;
        Ok(serde_json::from_slice(&bytes).ok())
    }
}
