//! Signatures that publishers attach to their images, under a tag or as referrers. They are fetched and
//! verified before the images are used.

use super::oci::Puller;
use super::signatures::{Policies, Rejected, UNKNOWN_LOG_HINT, Wanted};
use super::{FetchError, Http};
use kubexm_bundle::format::oci_layout::{EMPTY_CONFIG, INDEX_TYPE, MANIFEST_TYPE};
use kubexm_bundle::lock::{Descriptor, LockedImage, LockedSignature};
use kubexm_sigstore::bundle;
use kubexm_sigstore::document;
use kubexm_sigstore::document::Part;
use kubexm_sigstore::referrer;
use kubexm_sigstore::referrer::Referrer;
use kubexm_sigstore::{Artifact, none_of, verify, verify_any};
use kubexm_types::{Digest, ImageRef, Message};

/// The result of the search for an image's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// No policy requires one.
    NotAsked,
    /// There is none.
    None,
    /// There is one, and the registry does not have all of its parts; the reason.
    Incomplete(String),
    /// A valid signature.
    Signature(Box<LockedSignature>),
}

/// The result of looking in one place.
enum Look {
    /// There is no signature.
    Nothing,
    /// The registry does not have a part of the signature.
    Incomplete(String),
    /// The signature is not valid; the cause continues a sentence after "and".
    Refused(Rejected),
    Holds(Box<LockedSignature>),
}

/// The search for one image's signature.
struct Search<'a> {
    puller: Puller,
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
            puller: puller.for_optional_content(),
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
        let (mut refused, mut incomplete) = (Vec::new(), None);
        for form in [Form::Tag, Form::Referrer] {
            let look = match form {
                Form::Tag => search.tagged(None).await?,
                Form::Referrer => search.referrers().await?,
            };
            match look {
                Look::Holds(signature) => return Ok(Found::Signature(signature)),
                Look::Refused(rejected) => refused.push(rejected),
                Look::Incomplete(reason) => incomplete = Some(reason),
                Look::Nothing => {}
            }
        }
        match (refused.is_empty(), incomplete) {
            (false, _) => Err(not_accepted(image, &wanted, &refused)),
            (true, Some(reason)) => Ok(Found::Incomplete(reason)),
            (true, None) => Ok(Found::None),
        }
    }
}

/// The forms of signatures, in the order of the search.
#[derive(Clone, Copy)]
enum Form {
    Tag,
    Referrer,
}

/// Returns the error for an image whose signatures are not valid.
fn not_accepted(image: &LockedImage, wanted: &Wanted<'_>, refused: &[Rejected]) -> FetchError {
    let hint = if refused.iter().all(|rejected| rejected.is_of_unknown_log) {
        UNKNOWN_LOG_HINT
    } else {
        "the image may have been changed, or its publisher may sign with another key; \
         set the trusted signers in spec.signatures of the bundle manifest"
    };
    let causes: Vec<&str> = refused.iter().map(|one| one.cause.as_str()).collect();
    FetchError::Content {
        what: image.name.to_string(),
        reason: Message::new(format!(
            "the policy for {} requires a signature of {}, and {}",
            wanted.prefix,
            wanted.signers,
            causes.join(", and ")
        ))
        .hint(hint),
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
        let place = place.map_err(|error| FetchError::resolve(error.to_string()))?;
        let (bytes, digest) = match self.puller.manifest_of_any(&place, digest).await {
            Ok(found) => found,
            Err(FetchError::Refused { status: 404, .. }) => return Ok(Look::Nothing),
            Err(error) => return Err(error),
        };
        let refused = |rejected: Rejected| {
            Look::Refused(Rejected {
                cause: format!("the signature at {place} is not valid: {}", rejected.cause),
                ..rejected
            })
        };
        let manifest = match document::read(&bytes) {
            Ok(manifest) => manifest,
            Err(reason) => return Ok(refused(format!("it {reason}").into())),
        };
        for part in &manifest.parts {
            if let Some(incomplete) = self.missing(&place, part).await? {
                return Ok(incomplete);
            }
        }
        let cache = self.http.cache();
        let payload = |part: &Part| cache.read(&part.digest).map_err(|error| error.to_string());
        let digest_of_image = &self.image.manifest.digest;
        let artifact = Artifact::Image {
            digest: digest_of_image,
            manifest: &cache.read(digest_of_image)?,
        };
        let verified = self
            .wanted
            .signers
            .verify(|trust| verify_any(manifest.bundles(&payload), artifact, trust));
        Ok(match verified {
            Err(rejected) => refused(rejected),
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
        })
    }

    /// Fetches a part of a signature. Returns a result if the registry does not have it: registry.k8s.io has some
    /// signatures in one region only (<https://github.com/kubernetes-sigs/promo-tools/issues/1949>).
    async fn missing(&self, place: &ImageRef, part: &Part) -> Result<Option<Look>, FetchError> {
        match self.puller.blob(place, &part.into()).await {
            Ok(()) => Ok(None),
            Err(FetchError::Refused {
                url, status: 404, ..
            }) => Ok(Some(Look::Incomplete(format!(
                "there is a signature, but {url} answered 404"
            )))),
            Err(error) => Err(error),
        }
    }

    /// Looks at the referrers of the image.
    async fn referrers(&self) -> Result<Look, FetchError> {
        let (mut refused, mut incomplete) = (Vec::new(), None);
        for listed in self.puller.bundles_of(self.image).await? {
            match self.referrer(&listed).await? {
                Look::Nothing => {}
                Look::Incomplete(reason) => incomplete = Some(reason),
                Look::Refused(rejected) => refused.push(rejected),
                holds @ Look::Holds(_) => return Ok(holds),
            }
        }
        if refused.is_empty() {
            return Ok(incomplete.map_or(Look::Nothing, Look::Incomplete));
        }
        let is_of_unknown_log = refused.iter().all(|one| one.is_of_unknown_log);
        let reason = none_of(refused.into_iter().map(|one| one.cause).collect());
        Ok(Look::Refused(Rejected {
            cause: format!("its referrers are not valid signatures: {reason}"),
            is_of_unknown_log,
        }))
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
            Err(reason) => return Ok(Look::Refused(format!("it {reason}").into())),
        };
        if referrer.subject != self.image.manifest.digest {
            let subject = referrer.subject;
            return Ok(Look::Refused(
                format!("it is a signature of {subject}").into(),
            ));
        }
        for part in &referrer.parts {
            if part.digest == Digest::of(EMPTY_CONFIG) {
                // The empty configuration is well known, and not every registry has it.
                self.http.cache().insert(EMPTY_CONFIG)?;
            } else if let Some(incomplete) = self.missing(name, part).await? {
                return Ok(incomplete);
            }
        }
        let bundle = match bundle::read(&self.http.cache().read(&referrer.bundle.digest)?) {
            Ok(bundle) if bundle.is_signature() => bundle,
            Ok(_) => return Ok(Look::Nothing),
            Err(reason) => return Ok(Look::Refused(format!("it {reason}").into())),
        };
        let image = &self.image.manifest.digest;
        let top = self.http.cache().read(image)?;
        let artifact = Artifact::Image {
            digest: image,
            manifest: &top,
        };
        let verified = self
            .wanted
            .signers
            .verify(|trust| verify(&bundle, artifact, trust));
        match verified {
            Ok(by) => Ok(Look::Holds(Box::new(
                self.attached(by, &referrer, digest, &bytes)?,
            ))),
            Err(rejected) => Ok(Look::Refused(rejected)),
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
