//! Signatures that publishers attach to their images, under a tag or as referrers. They are fetched and
//! verified before the images are used.

use super::oci::Puller;
use super::signatures::{Policies, Wanted};
use super::{FetchError, Http};
use kubexm_bundle::format::oci_layout::{EMPTY_CONFIG, INDEX_TYPE, MANIFEST_TYPE};
use kubexm_bundle::lock::{Descriptor, LockedImage, LockedSignature};
use kubexm_sigstore::bundle;
use kubexm_sigstore::document;
use kubexm_sigstore::document::Part;
use kubexm_sigstore::referrer;
use kubexm_sigstore::referrer::Referrer;
use kubexm_sigstore::{Artifact, none_of, verify, verify_any};
use kubexm_types::Digest;

/// The result of the search for an image's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// No policy requires one.
    NotAsked,
    /// There is none.
    None,
    /// A valid signature.
    Signature(Box<LockedSignature>),
}

/// The result of looking in one place.
enum Look {
    /// There is no signature.
    Nothing,
    /// The signature is not valid; the text continues a sentence after "and".
    Refused(String),
    Holds(Box<LockedSignature>),
}

/// The search for one image's signature.
struct Search<'a> {
    puller: &'a Puller,
    http: &'a Http,
    image: &'a LockedImage,
    wanted: &'a Wanted<'a>,
}

impl Policies {
    /// Fetches the signature of an image into the cache and verifies it.
    ///
    /// # Errors
    /// The signature is not valid or cannot be fetched.
    pub async fn verify(
        &self,
        puller: &Puller,
        http: &Http,
        image: &LockedImage,
        previous: Option<&LockedSignature>,
    ) -> Result<Found, FetchError> {
        let Some(wanted) = self.wanted_of_image(&image.name) else {
            return Ok(Found::NotAsked);
        };
        let search = Search {
            puller,
            http,
            image,
            wanted: &wanted,
        };
        // The signature in the lock first, if its blobs exist and the policy still accepts it.
        if let Some(previous) = previous
            && let Look::Holds(signature) = search.previous(previous).await?
        {
            return Ok(Found::Signature(signature));
        }
        let mut refused = Vec::new();
        match search.tagged(None).await? {
            Look::Holds(signature) => return Ok(Found::Signature(signature)),
            Look::Refused(reason) => refused.push(reason),
            Look::Nothing => {}
        }
        match search.referrers().await? {
            Look::Holds(signature) => return Ok(Found::Signature(signature)),
            Look::Refused(reason) => refused.push(reason),
            Look::Nothing => {}
        }
        if refused.is_empty() {
            return Ok(Found::None);
        }
        Err(FetchError::Content {
            what: image.name.to_string(),
            reason: format!(
                "the policy for {} requires a signature of {}, and {}\nhint: the image may have been changed, \
                 or its publisher may sign with another key; set the trusted signers in spec.signatures \
                 of the bundle manifest",
                wanted.prefix,
                wanted.signers,
                refused.join(", and ")
            ),
        })
    }
}

impl Search<'_> {
    /// Verifies the signature that an earlier build found.
    async fn previous(&self, previous: &LockedSignature) -> Result<Look, FetchError> {
        match previous.referrers {
            None => self.tagged(Some(previous.manifest.digest)).await,
            Some(_) => self.referrer(&previous.manifest).await,
        }
    }

    /// Looks under the tag for signatures.
    async fn tagged(&self, digest: Option<Digest>) -> Result<Look, FetchError> {
        let place = self.image.name.with_tag(&self.image.signature_tag());
        let place = place.map_err(|error| FetchError::Resolve(error.to_string()))?;
        let (bytes, digest) = match self.puller.manifest_of_any(&place, digest).await {
            Ok(found) => found,
            Err(FetchError::Refused { status: 404, .. }) => return Ok(Look::Nothing),
            Err(error) => return Err(error),
        };
        let refused =
            |reason| Look::Refused(format!("the signature at {place} is not valid: {reason}"));
        let manifest = match document::read(&bytes) {
            Ok(manifest) => manifest,
            Err(reason) => return Ok(refused(format!("it {reason}"))),
        };
        for part in &manifest.parts {
            self.puller.blob(&place, &part.into()).await?;
        }
        let cache = self.http.cache();
        let payload = |part: &Part| cache.read(&part.digest).map_err(|error| error.to_string());
        let digest_of_image = &self.image.manifest.digest;
        let artifact = Artifact::Image {
            digest: digest_of_image,
            manifest: &cache.read(digest_of_image)?,
        };
        let bundles = manifest.bundles(&payload);
        Ok(
            match verify_any(bundles, artifact, self.wanted.signers.trust()) {
                Err(error) => refused(error.cause().to_owned()),
                Ok(by) => Look::Holds(Box::new(LockedSignature {
                    policy: self.wanted.prefix.clone(),
                    by,
                    blobs: manifest.parts.iter().map(Descriptor::from).collect(),
                    manifest: Descriptor {
                        media_type: manifest.media_type,
                        digest,
                        size: bytes.len() as u64,
                    },
                    referrers: None,
                })),
            },
        )
    }

    /// Looks at the referrers of the image.
    async fn referrers(&self) -> Result<Look, FetchError> {
        let mut reasons = Vec::new();
        for listed in self.puller.bundles_of(self.image).await? {
            match self.referrer(&listed).await? {
                Look::Nothing => {}
                Look::Refused(reason) => reasons.push(reason),
                holds @ Look::Holds(_) => return Ok(holds),
            }
        }
        if reasons.is_empty() {
            return Ok(Look::Nothing);
        }
        let reason = none_of(reasons);
        Ok(Look::Refused(format!(
            "its referrers are not valid signatures: {reason}"
        )))
    }

    /// Looks at one referrer. Other attestations than signatures are ignored.
    async fn referrer(&self, listed: &Descriptor) -> Result<Look, FetchError> {
        let name = &self.image.name;
        let (bytes, digest) = match self.puller.manifest(name, Some(listed.digest)).await {
            Ok(found) => found,
            // An index may name manifests that were deleted.
            Err(FetchError::Refused { status: 404, .. }) => return Ok(Look::Nothing),
            Err(error) => return Err(error),
        };
        let referrer = match referrer::read(&bytes) {
            Ok(Some(referrer)) => referrer,
            Ok(None) => return Ok(Look::Nothing),
            Err(reason) => return Ok(Look::Refused(format!("it {reason}"))),
        };
        if referrer.subject != self.image.manifest.digest {
            let subject = referrer.subject;
            return Ok(Look::Refused(format!("it is a signature of {subject}")));
        }
        for part in &referrer.parts {
            match part.digest == Digest::of(EMPTY_CONFIG) {
                // The empty configuration is well known, and not every registry has it.
                true => self.http.cache().insert(EMPTY_CONFIG).map(|_| ())?,
                false => self.puller.blob(name, &part.into()).await?,
            }
        }
        let bundle = match bundle::read(&self.http.cache().read(&referrer.bundle.digest)?) {
            Ok(bundle) if bundle.is_signature() => bundle,
            Ok(_) => return Ok(Look::Nothing),
            Err(reason) => return Ok(Look::Refused(format!("it {reason}"))),
        };
        let image = &self.image.manifest.digest;
        let top = self.http.cache().read(image)?;
        let artifact = Artifact::Image {
            digest: image,
            manifest: &top,
        };
        match verify(&bundle, artifact, self.wanted.signers.trust()) {
            Ok(by) => Ok(Look::Holds(Box::new(
                self.attached(by, &referrer, digest, &bytes)?,
            ))),
            Err(error) => Ok(Look::Refused(error.cause().to_owned())),
        }
    }

    /// Returns the lock entry of a referrer.
    fn attached(
        &self,
        by: kubexm_sigstore::Signer,
        referrer: &Referrer,
        digest: Digest,
        manifest: &[u8],
    ) -> Result<LockedSignature, FetchError> {
        let list = referrer::list_of(manifest);
        Ok(LockedSignature {
            policy: self.wanted.prefix.clone(),
            by,
            manifest: Descriptor {
                media_type: MANIFEST_TYPE.to_owned(),
                digest,
                size: manifest.len() as u64,
            },
            blobs: referrer.parts.iter().map(Descriptor::from).collect(),
            referrers: Some(Descriptor {
                media_type: INDEX_TYPE.to_owned(),
                digest: self.http.cache().insert(&list)?,
                size: list.len() as u64,
            }),
        })
    }
}
