//! Pushing one image of a bundle into a repository of its own, under its tag.

use std::sync::Arc;

use oci_client::Reference;
use serde_json::Value;

use super::{PushRefusal, Pusher};
use crate::FetchError;
use kubexm_bundle::lock::LockedImage;
use kubexm_bundle::{BlobInfo, Bundle, BundleError, oci_artifact};
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
    /// index of the contained platforms. That index can be pulled by tag, but not by the publisher's digest.
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
        let registry = self.repository.resolve_registry();
        self.client.store_auth_if_needed(registry, &self.auth).await;
        let blobs = image.platforms.iter().flat_map(|platform| &platform.blobs);
        let label = image.name.to_string();
        let all = blobs
            .map(|blob| {
                let (size, label) = (blob.size, label.clone());
                (blob.digest, BlobInfo { size, label })
            })
            .collect();
        let missing = self.missing(&all).await?;
        let sent = missing.len();
        self.blobs(Arc::clone(bundle), missing).await?;
        let (reader, locked) = (Arc::clone(bundle), image.clone());
        let documents = tokio::task::spawn_blocking(move || documents(&reader, &locked));
        let (platforms, top) = documents
            .await
            .map_err(|error| FetchError::Resolve(format!("{label}: {error}")))??;
        for platform in &platforms {
            self.document(&self.by_digest(&platform.digest), platform)
                .await?;
        }
        match self.document(&self.repository, &top).await {
            Err(PushRefusal::Content(reason)) => {
                let Some(reduced) = reduced(&top, image) else {
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

    async fn document(&self, place: &Reference, document: &Document) -> Result<(), PushRefusal> {
        self.manifest(place, &document.media_type, &document.bytes)
            .await
    }
}

/// Returns an image's manifests: those of its platforms, and the one that its tag names.
fn documents(
    bundle: &Bundle,
    image: &LockedImage,
) -> Result<(Vec<Document>, Document), BundleError> {
    let read = |descriptor: &kubexm_bundle::lock::Descriptor| {
        Ok::<_, BundleError>(Document {
            media_type: descriptor.media_type.clone(),
            digest: descriptor.digest,
            bytes: oci_artifact::read_small(bundle, descriptor)?,
        })
    };
    let platforms = image.platforms.iter().map(|p| read(&p.manifest));
    Ok((platforms.collect::<Result<_, _>>()?, read(&image.manifest)?))
}

/// Returns the index without platforms that the bundle does not contain; `None` if it is not an index.
fn reduced(top: &Document, image: &LockedImage) -> Option<Document> {
    let mut index: Value = serde_json::from_slice(&top.bytes).ok()?;
    let entries = index.get_mut("manifests")?.as_array_mut()?;
    entries.retain(|entry| {
        let digest = entry["digest"].as_str().and_then(|text| text.parse().ok());
        digest.is_some_and(|digest: Digest| {
            image.platforms.iter().any(|p| p.manifest.digest == digest)
        })
    });
    let bytes = serde_json::to_vec(&index).ok()?;
    Some(Document {
        media_type: top.media_type.clone(),
        digest: Digest::of(&bytes),
        bytes,
    })
}
