//! Pushing publishers' signatures, under the tags where cosign looks for them or as referrers.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use oci_client::Reference;
use oci_client::errors::{OciDistributionError, OciErrorCode};

use super::{PushRefusal, Pusher, in_time};
use crate::FetchError;
use kubexm_bundle::format::oci_layout::INDEX_TYPE;
use kubexm_bundle::lock::Descriptor;
use kubexm_bundle::{Bundle, BundleError, oci_artifact};
use kubexm_sigstore::referrer;
use kubexm_types::{Digest, WarningKind};

/// Media types of indexes of referrers.
const LISTS: [&str; 1] = [INDEX_TYPE];

/// A signature of an image with the bytes of its manifest.
struct Signature {
    manifest: Descriptor,
    bytes: Vec<u8>,
    place: Place,
}

/// Where a signature is stored in a registry.
enum Place {
    /// Under a tag of its own.
    Tag(String),
    /// As a referrer of the image `of`; without the referrers API, also in an index under `tag`.
    Referrer { of: Digest, tag: String },
}

impl Pusher {
    /// Pushes the signatures of all images; their blobs are already in the registry. Returns how many
    /// signatures are now there.
    ///
    /// # Errors
    /// The bundle is damaged, or the registry cannot be reached.
    pub(super) async fn signatures(&self, bundle: &Arc<Bundle>) -> Result<usize, FetchError> {
        let reader = Arc::clone(bundle);
        let signatures = tokio::task::spawn_blocking(move || read(&reader));
        let signatures = signatures.await.map_err(|error| {
            FetchError::Bundle(BundleError::io(bundle.path(), io::Error::other(error)))
        })??;
        let mut count = 0;
        for signature in signatures.values() {
            let put = match &signature.place {
                Place::Tag(tag) => self.tagged_signature(signature, tag).await,
                Place::Referrer { of, tag } => self.referrer(signature, of, tag).await,
            };
            match put {
                Ok(true) => count += 1,
                Ok(false) => {}
                Err(PushRefusal::Content(reason)) => self.events.warn(
                    WarningKind::Signatures,
                    format!(
                        "{}: the registry does not take the signature {} ({reason}); the pushed \
                     bundle contains it",
                        self.place, signature.manifest.digest
                    ),
                ),
                Err(PushRefusal::Other(error)) => return Err(error),
            }
        }
        Ok(count)
    }

    /// Pushes a signature under a tag; returns whether the tag names it.
    async fn tagged_signature(
        &self,
        signature: &Signature,
        tag: &str,
    ) -> Result<bool, PushRefusal> {
        let place = self.tagged(tag.to_owned());
        match self.digest_at(&place).await? {
            Some(there) if there == signature.manifest.digest.to_string() => Ok(true),
            // The image may have been signed at the site; that signature must not be lost.
            Some(_) => {
                self.events.warn(
                    WarningKind::Signatures,
                    format!(
                        "{place}: has other signatures, which are kept; the pushed bundle contains its \
                         own"
                    ),
                );
                Ok(false)
            }
            None => {
                let kind = &signature.manifest.media_type;
                self.manifest(&place, kind, &signature.bytes).await?;
                Ok(true)
            }
        }
    }

    /// Pushes a referrer, and adds it to the index of its image in registries without the referrers API.
    async fn referrer(
        &self,
        signature: &Signature,
        of: &Digest,
        tag: &str,
    ) -> Result<bool, PushRefusal> {
        let (digest, kind) = (&signature.manifest.digest, &signature.manifest.media_type);
        self.manifest(&self.by_digest(digest), kind, &signature.bytes)
            .await?;
        let image = self.by_digest(of);
        let listed = in_time(self.client.pull_referrers(&image, None)).await;
        let names = |entry: &str| entry == digest.to_string();
        if listed.is_ok_and(|list| list.manifests.iter().any(|entry| names(&entry.digest))) {
            return Ok(true);
        }
        let place = self.tagged(tag.to_owned());
        let list = match self.digest_at(&place).await? {
            None => Some(referrer::list_of(&signature.bytes)),
            Some(_) => {
                let ask = || in_time(self.client.pull_manifest_raw(&place, &self.auth, &LISTS));
                let (list, _) = self.persist(&place.to_string(), ask).await?;
                let more = referrer::with_one_more(&list, &signature.bytes);
                more.map_err(|reason| PushRefusal::Content(format!("{place} {reason}")))?
            }
        };
        if let Some(list) = list {
            self.manifest(&place, INDEX_TYPE, &list).await?;
        }
        Ok(true)
    }

    /// Returns the digest that a tag names; `None` if the tag does not exist.
    async fn digest_at(&self, place: &Reference) -> Result<Option<String>, PushRefusal> {
        let ask = || async {
            let asked = in_time(self.client.fetch_manifest_digest(place, &self.auth)).await;
            match asked {
                Ok(digest) => Ok(Some(digest)),
                Err(error) if is_absent(&error) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.persist(&place.to_string(), ask).await
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

/// Reads the signatures of a bundle without duplicates; an image may have several names.
fn read(bundle: &Bundle) -> Result<BTreeMap<(Digest, Digest), Signature>, BundleError> {
    let mut signatures = BTreeMap::new();
    for image in &bundle.lock().images {
        let Some(signature) = &image.signature else {
            continue;
        };
        let of = image.manifest.digest;
        let place = match &signature.referrers {
            None => Place::Tag(image.signature_tag()),
            Some(_) => Place::Referrer {
                of,
                tag: image.referrers_tag(),
            },
        };
        let signature = Signature {
            bytes: oci_artifact::read_small(bundle, &signature.manifest)?,
            manifest: signature.manifest.clone(),
            place,
        };
        signatures.insert((of, signature.manifest.digest), signature);
    }
    Ok(signatures)
}
