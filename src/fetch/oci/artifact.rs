//! The manifests of an artifact that is not a container image: a chart, a source of Flux or Argo CD, a policy, a model or a
//! module of WASM (<https://github.com/opencontainers/image-spec/blob/main/manifest.md#guidelines-for-artifact-usage>).
//! All of them are carried: their media types and platforms have no meaning for kubexm.

use std::collections::VecDeque;

use super::Puller;
use super::manifest::{Manifest, parse_manifest, platform};
use crate::FetchError;
use crate::error::wrong;
use kubexm_bundle::lock::{Descriptor, PlatformManifest};
use kubexm_types::{ImageRef, Message};

/// Maximum number of indexes and manifests below the top manifest.
const MOST_READ: usize = 256;
/// Maximum size of a media type, in bytes (RFC 6838, section 4.2).
const LONGEST_TYPE: usize = 255;

/// A document that is read, with the indexes above it that are below the top manifest.
struct Level {
    place: Descriptor,
    content: Manifest,
    indexes: Vec<Descriptor>,
}

impl Puller {
    /// Returns every manifest of an artifact.
    pub(super) async fn all_manifests(
        &self,
        name: &ImageRef,
        place: Descriptor,
        content: Manifest,
    ) -> Result<Vec<PlatformManifest>, FetchError> {
        let mut found = Vec::new();
        let mut read = 0;
        let mut levels = VecDeque::from([Level {
            place,
            content,
            indexes: Vec::new(),
        }]);
        while let Some(Level {
            place,
            content,
            indexes,
        }) = levels.pop_front()
        {
            let Some(entries) = &content.manifests else {
                let manifest = platform(name, None, place, &content)?;
                manifest
                    .everything()
                    .try_for_each(|blob| check_type(name, &blob.media_type))?;
                found.push(PlatformManifest {
                    indexes,
                    ..manifest
                });
                continue;
            };
            if entries.is_empty() {
                return Err(wrong(name, "has an index that does not name a manifest"));
            }
            // The index at the top is the manifest of the artifact itself.
            let above = if read == 0 {
                Vec::new()
            } else {
                [indexes.as_slice(), &[place]].concat()
            };
            for entry in entries {
                read += 1;
                if read > MOST_READ {
                    let reason = format!("it has more than {MOST_READ} indexes and manifests");
                    return Err(wrong(name, reason));
                }
                let below = entry.descriptor();
                if !entry.is_image() {
                    check_type(name, &below.media_type)?;
                    return Err(wrong(
                        name,
                        Message::new(format!(
                            "its index names a '{}', which registries do not serve as a manifest",
                            below.media_type
                        ))
                        .hint(
                            "name the manifests of the index in spec.artifacts, each by its digest",
                        ),
                    ));
                }
                let (bytes, _) = self.manifest(name, Some(below.digest)).await?;
                if bytes.len() as u64 != below.size {
                    let reason = format!("its index has a wrong size of {}", below.digest);
                    return Err(wrong(name, reason));
                }
                levels.push_back(Level {
                    content: parse_manifest(name, &bytes)?,
                    place: below,
                    indexes: above.clone(),
                });
            }
        }
        Ok(found)
    }
}

/// Refuses a media type that is not one: it appears on terminals and in headers of requests.
fn check_type(name: &ImageRef, text: &str) -> Result<(), FetchError> {
    let is_valid = text.len() <= LONGEST_TYPE
        && text.contains('/')
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_valid {
        Ok(())
    } else {
        Err(wrong(name, "its manifest has an invalid media type"))
    }
}
