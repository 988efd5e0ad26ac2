//! A bundle out of a registry: its blobs into the cache, from which it is packed again.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};

use super::Puller;
use crate::bundle::Storage;
use crate::bundle::lock::{Descriptor, Lock};
use crate::bundle::transport::{self, Document, LARGEST_DOCUMENT};
use crate::fetch::FetchError;
use crate::spec::{Digest, ImageRef};

/// Blobs on their way at once.
const PARALLEL: usize = 8;
/// A head has a handful of documents.
const MOST_DOCUMENTS: usize = 16;

/// A bundle that can be packed from the cache.
#[derive(Debug)]
pub struct Pulled {
    /// What is in it.
    pub lock: Lock,
    /// How it lay in the file.
    pub storage: Storage,
}

impl Puller {
    /// Fetches a whole bundle into the cache.
    ///
    /// # Errors
    /// There is no bundle at that place, it contradicts itself, or a blob cannot be had.
    pub async fn bundle(&self, place: &ImageRef) -> Result<Pulled, FetchError> {
        let content = |reason: &str| FetchError::Content {
            what: place.to_string(),
            reason: reason.to_owned(),
        };
        self.http.events().phase("pull");
        let (top, _) = self.manifest(place, place.digest()).await?;
        let named = transport::read(&top)
            .ok_or_else(|| content("is no bundle that `kubexm bundle push` has put there"))?;
        if named.len() > MOST_DOCUMENTS {
            return Err(content(
                "names more documents than a bundle has; do not use it",
            ));
        }
        let mut documents = Vec::new();
        for (name, descriptor) in named {
            if descriptor.size > LARGEST_DOCUMENT {
                return Err(content("has a document of impossible size; do not use it"));
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
        let (lock, storage) = transport::accept(&documents).map_err(|reason| content(&reason))?;
        self.all_blobs(place, &lock.blobs()).await?;
        Ok(Pulled { lock, storage })
    }

    /// Fetches every blob, the largest first.
    async fn all_blobs(
        &self,
        place: &ImageRef,
        blobs: &BTreeMap<Digest, (u64, String)>,
    ) -> Result<(), FetchError> {
        let mut wanted: Vec<_> = blobs.iter().collect();
        wanted.sort_by_key(|(digest, (size, _))| (std::cmp::Reverse(*size), **digest));
        let results: Vec<_> = stream::iter(wanted)
            .map(|(digest, (size, _))| async move {
                let blob = Descriptor {
                    media_type: String::new(),
                    digest: *digest,
                    size: *size,
                };
                self.blob(place, &blob).await
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        FetchError::all(results.into_iter().filter_map(Result::err).collect())
    }
}
