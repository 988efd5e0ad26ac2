//! Pulling a bundle from a registry: its blobs go into the cache, and the bundle is packed from there.

use futures_util::stream::{self, StreamExt};

use super::Puller;
use crate::FetchError;
use kubexm_bundle::BlobIndex;
use kubexm_bundle::format::header::{BundleHeader, HeaderError};
use kubexm_bundle::lock::Descriptor;
use kubexm_bundle::oci_artifact;
use kubexm_bundle::oci_artifact::{Document, LARGEST_DOCUMENT};
use kubexm_types::{ImageRef, Message, PublicKey};

/// Number of concurrent downloads of blobs.
const PARALLEL: usize = 8;
/// Maximum number of documents in the bundle's manifest.
const MOST_DOCUMENTS: usize = 16;

impl Puller {
    /// Fetches all blobs of a bundle into the cache.
    ///
    /// # Errors
    /// The tag does not name a valid bundle, no trusted key signed it, or a blob cannot be fetched.
    pub async fn bundle(
        &self,
        place: &ImageRef,
        trust: &[PublicKey],
    ) -> Result<BundleHeader, FetchError> {
        let content = |reason: Message| FetchError::Content {
            what: place.to_string(),
            reason,
        };
        self.http.events().phase("pull");
        let (top, _) = self.manifest(place, place.digest()).await?;
        let named = oci_artifact::read(&top)
            .ok_or_else(|| content("is not a bundle that `kubexm bundle push` wrote".into()))?;
        if named.len() > MOST_DOCUMENTS {
            let reason = Message::new("names more documents than a bundle has");
            return Err(content(reason.hint("do not use this bundle")));
        }
        let mut documents = Vec::new();
        for (name, descriptor) in named {
            if descriptor.size > LARGEST_DOCUMENT {
                let reason = Message::new("has a document whose size exceeds the limit");
                return Err(content(reason.hint("do not use this bundle")));
            }
            self.blob(place, &descriptor).await?;
            let bytes = self.http.cache().read(&descriptor.digest)?;
            let media_type = descriptor.media_type;
            documents.push(Document {
                name,
                media_type,
                bytes,
            });
        }
        let head = oci_artifact::accept(&documents, trust).map_err(|bad| match bad {
            HeaderError::Damaged(reason) | HeaderError::Untrusted(reason) => {
                content(reason.to_string().into())
            }
        })?;
        if head.storage.base.is_some() {
            let reason = Message::new("is an incremental bundle, which registries cannot store");
            return Err(content(reason.hint("push a complete bundle")));
        }
        self.all_blobs(place, head.lock.blobs()).await?;
        Ok(head)
    }

    /// Fetches every blob, the largest first.
    async fn all_blobs(&self, place: &ImageRef, blobs: &BlobIndex) -> Result<(), FetchError> {
        let mut wanted: Vec<_> = blobs.iter().collect();
        wanted.sort_by_key(|(digest, blob)| (std::cmp::Reverse(blob.size), **digest));
        let results: Vec<_> = stream::iter(wanted)
            .map(|(digest, info)| async move {
                let blob = Descriptor {
                    media_type: String::new(),
                    digest: *digest,
                    size: info.size,
                };
                self.blob(place, &blob).await
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        FetchError::all(results.into_iter().filter_map(Result::err).collect())
    }
}
