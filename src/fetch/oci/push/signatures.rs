//! Publishers' signatures into a registry, under the tags where cosign looks for them, or as referrers.

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
use kubexm_types::Digest;

/// Media types of lists of referrers.
const LISTS: [&str; 1] = [INDEX_TYPE];

/// A signature of an image with the bytes of its manifest.
struct Signature {
    manifest: Descriptor,
    bytes: Vec<u8>,
    place: Place,
}

/// Where it belongs.
enum Place {
    /// Under a tag of its own.
    Tag(String),
    /// Beside the image of this digest; where the registry lists no referrers, in a list under this tag.
    Referrer { of: Digest, tag: String },
}

impl Pusher {
    /// Puts the signatures of all images there; their blobs are there. How many it put or found.
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
                Err(PushRefusal::Content(words)) => self.events.warn(format!(
                    "{}: the registry does not take the signature {} ({words}); it is in the bundle \
                     there all the same",
                    self.place, signature.manifest.digest
                )),
                Err(PushRefusal::Other(error)) => return Err(error),
            }
        }
        Ok(count)
    }

    /// Whether it stands there now.
    async fn tagged_signature(
        &self,
        signature: &Signature,
        tag: &str,
    ) -> Result<bool, PushRefusal> {
        let place = self.tagged(tag.to_owned());
        match self.digest_at(&place).await? {
            Some(there) if there == signature.manifest.digest.to_string() => Ok(true),
            // Somebody may have signed the image there; that must not be lost.
            Some(_) => {
                self.events.warn(format!(
                    "{place}: has other signatures, which stay; those of the bundle are in it all the \
                     same"
                ));
                Ok(false)
            }
            None => {
                let kind = &signature.manifest.media_type;
                self.manifest(&place, kind, &signature.bytes).await?;
                Ok(true)
            }
        }
    }

    /// Puts a referrer there, and into the list of those of its image where the registry makes none.
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

    /// What a tag names; `None` where there is no such tag.
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

/// Each once: an image may stand under several names.
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
