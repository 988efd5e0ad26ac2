//! Pushing one image of a bundle into a repository of its own, under its tag.

use std::collections::BTreeSet;
use std::sync::Arc;

use oci_client::Reference;
use serde_json::Value;

use super::{PushRefusal, Pusher};
use crate::FetchError;
use kubexm_bundle::lock::blob_index::content_size;
use kubexm_bundle::lock::{Descriptor, LockedImage};
use kubexm_bundle::{BlobIndex, BlobInfo, Bundle, BundleError, oci_artifact};
use kubexm_types::Digest;

/// A manifest to push, with its media type.
struct Document {
    media_type: String,
    digest: Digest,
    bytes: Vec<u8>,
}

impl Pusher {
    /// Pushes the missing blobs of an image, its manifests, and its tag last. Returns the number of pushed
    /// blobs.
    ///
    /// A registry may refuse an index with platforms that the bundle does not contain. The tag then names an
    /// index of the contained platforms. That index can be pulled by tag, but not by the publisher's digest. An artifact that is
    /// not an image is complete, and is never changed.
    ///
    /// # Errors
    /// The bundle is damaged, the registry refuses a request, or it cannot be reached. Pushed content
    /// remains. The bundle is damaged, or the registry refuses or cannot be reached; what was sent stays
    /// there.
    pub async fn push_image(
        &self,
        bundle: &Arc<Bundle>,
        image: &LockedImage,
    ) -> Result<usize, FetchError> {
        let label = image.name.to_string();
        let missing = self.missing_of(image).await?;
        let sent = missing.len();
        self.blobs(Arc::clone(bundle), missing).await?;
        let (reader, locked) = (Arc::clone(bundle), image.clone());
        let documents = tokio::task::spawn_blocking(move || documents(&reader, &locked));
        let Documents {
            platforms,
            indexes,
            top,
        } = documents
            .await
            .map_err(|error| FetchError::resolve(format!("{label}: {error}")))??;
        for platform in &platforms {
            self.document(&self.by_digest(&platform.digest), platform)
                .await?;
        }
        match self.indexes(&indexes, &top).await {
            Err(PushRefusal::Content(reason)) => {
                let Some(reduced) = reduced(&top, &indexes, image) else {
                    return Err(PushRefusal::Content(reason).into());
                };
                self.events.note(format!(
                    "{label}: the registry refuses an index with missing platforms; the tag names an index of \
                     the bundle's platforms"
                ));
                self.document(&self.repository, &reduced).await?;
            }
            other => other?,
        }
        Ok(sent)
    }

    /// Returns how many blobs of an image the registry does not have, and their size in bytes. Sends nothing.
    ///
    /// # Errors
    /// The registry refuses a request, or it cannot be reached.
    pub async fn count_missing(&self, image: &LockedImage) -> Result<(usize, u64), FetchError> {
        let missing = self.missing_of(image).await?;
        Ok((missing.len(), content_size(&missing)))
    }

    async fn missing_of(&self, image: &LockedImage) -> Result<BlobIndex, FetchError> {
        let registry = self.repository.resolve_registry();
        self.client.store_auth_if_needed(registry, &self.auth).await;
        let blobs = image.platforms.iter().flat_map(|platform| &platform.blobs);
        let all = blobs.map(|blob| {
            let (size, label) = (blob.size, image.name.to_string());
            (blob.digest, BlobInfo { size, label })
        });
        self.missing(&all.collect()).await
    }

    /// Pushes the indexes below the top manifest, and the top manifest under its tag.
    async fn indexes(&self, indexes: &[Document], top: &Document) -> Result<(), PushRefusal> {
        for index in indexes {
            self.document(&self.by_digest(&index.digest), index).await?;
        }
        self.document(&self.repository, top).await
    }

    async fn document(&self, place: &Reference, document: &Document) -> Result<(), PushRefusal> {
        self.manifest(place, &document.media_type, &document.bytes)
            .await
    }
}

/// An image's manifests.
struct Documents {
    platforms: Vec<Document>,
    /// The indexes between the top manifest and those of the platforms, children first.
    indexes: Vec<Document>,
    /// The manifest that the tag names.
    top: Document,
}

fn documents(bundle: &Bundle, image: &LockedImage) -> Result<Documents, BundleError> {
    let read = |descriptor: &Descriptor| {
        Ok::<_, BundleError>(Document {
            media_type: descriptor.media_type.clone(),
            digest: descriptor.digest,
            bytes: oci_artifact::read_small(bundle, descriptor)?,
        })
    };
    let platforms = image.platforms.iter();
    let indexes = image.indexes().into_iter().map(read);
    Ok(Documents {
        platforms: platforms
            .map(|p| read(&p.manifest))
            .collect::<Result<_, _>>()?,
        indexes: indexes.collect::<Result<_, _>>()?,
        top: read(&image.manifest)?,
    })
}

/// Returns an index of the platforms that the bundle contains; `None` if the top manifest is not that of an image, or not an index. Entries of
/// indexes below it become its own.
fn reduced(top: &Document, indexes: &[Document], image: &LockedImage) -> Option<Document> {
    if image.is_artifact() {
        return None;
    }
    let mut index: Value = serde_json::from_slice(&top.bytes).ok()?;
    let below = indexes.iter().filter_map(|index| {
        let index: Value = serde_json::from_slice(&index.bytes).ok()?;
        Some(index.get("manifests")?.as_array()?.clone())
    });
    let below: Vec<Value> = below.flatten().collect();
    let entries = index.get_mut("manifests")?.as_array_mut()?;
    entries.extend(below);
    let mut seen = BTreeSet::new();
    entries.retain(|entry| {
        let digest = entry["digest"].as_str().and_then(|text| text.parse().ok());
        digest.is_some_and(|digest: Digest| {
            let mut platforms = image.platforms.iter();
            platforms.any(|p| p.manifest.digest == digest) && seen.insert(digest)
        })
    });
    let bytes = serde_json::to_vec(&index).ok()?;
    Some(Document {
        media_type: top.media_type.clone(),
        digest: Digest::of(&bytes),
        bytes,
    })
}
