//! Publishers' signatures into a registry, under the tags where cosign looks for them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use oci_client::Reference;
use oci_client::errors::{OciDistributionError, OciErrorCode};

use super::{PushRefusal, Pusher, failed, in_time};
use crate::bundle::lock::Descriptor;
use crate::bundle::{Bundle, BundleError, transport};
use crate::fetch::FetchError;

/// Signature manifests with their bytes, by tag.
type Manifests = BTreeMap<String, (Descriptor, Vec<u8>)>;

impl Pusher {
    /// Puts the signatures of all images there; their blobs are there. How many it put or found.
    ///
    /// # Errors
    /// The bundle is damaged, or the registry cannot be reached.
    pub(super) async fn signatures(&self, bundle: &Arc<Bundle>) -> Result<usize, FetchError> {
        let reader = Arc::clone(bundle);
        let manifests = tokio::task::spawn_blocking(move || read(&reader));
        let manifests = manifests.await.map_err(|error| {
            FetchError::Bundle(failed(bundle.path(), io::Error::other(error)))
        })??;
        let mut count = 0;
        for (tag, (manifest, bytes)) in manifests {
            let place = self.tagged(tag);
            match self.digest_at(&place).await? {
                Some(there) if there == manifest.digest.to_string() => count += 1,
                // Somebody may have signed the image there; that must not be lost.
                Some(_) => self.events.warn(format!(
                    "{place}: has other signatures, which stay; those of the bundle are in it all the \
                     same"
                )),
                None => match self.manifest(&place, &manifest.media_type, &bytes).await {
                    Ok(()) => count += 1,
                    Err(PushRefusal::Content(words)) => self.events.warn(format!(
                        "{place}: the registry does not take the signature ({words}); it is in the \
                         bundle there all the same"
                    )),
                    Err(PushRefusal::Other(error)) => return Err(error),
                },
            }
        }
        Ok(count)
    }

    /// What a tag names; `None` where there is no such tag.
    async fn digest_at(&self, place: &Reference) -> Result<Option<String>, FetchError> {
        let ask = || async {
            let asked = in_time(self.client.fetch_manifest_digest(place, &self.auth)).await;
            match asked {
                Ok(digest) => Ok(Some(digest)),
                Err(error) if is_absent(&error) => Ok(None),
                Err(error) => Err(error),
            }
        };
        Ok(self.persist(&place.to_string(), ask).await?)
    }

    fn tagged(&self, tag: String) -> Reference {
        let (registry, repository) = (self.place.registry(), self.place.repository());
        Reference::with_tag(registry.to_owned(), repository.to_owned(), tag)
    }
}

fn is_absent(error: &OciDistributionError) -> bool {
    match error {
        OciDistributionError::ServerError { code, .. } => *code == 404,
        OciDistributionError::RegistryError { envelope, .. } => envelope.errors.iter().any(|e| {
            matches!(
                e.code,
                OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown | OciErrorCode::NotFound
            )
        }),
        _ => false,
    }
}

fn read(bundle: &Bundle) -> Result<Manifests, BundleError> {
    let mut manifests = BTreeMap::new();
    for image in &bundle.lock().images {
        if let Some(signature) = &image.signature {
            let bytes = transport::read_small(bundle, &signature.manifest)?;
            manifests.insert(image.signature_tag(), (signature.manifest.clone(), bytes));
        }
    }
    Ok(manifests)
}
