//! Signatures that publishers have put beside their images: fetched, and verified before anything is
//! built of those images.

use std::path::Path;

use super::oci::Puller;
use super::{FetchError, Http};
use crate::bundle::lock::{Descriptor, LockedImage, LockedSignature};
use crate::catalog::Catalog;
use crate::sigstore::document::{self, Part};
use crate::sigstore::{self, Trust, TrustedRoot, Unverified};
use crate::spec::signature_policy::{Identity, ImagePrefix, Rule, SignaturePolicy, SignedBy};
use crate::spec::{Digest, ImageRef, VerifyingKey};

/// A key file or a trusted root is never larger, in bytes.
const LARGEST_FILE: u64 = 1024 * 1024;

/// Which images must be signed by whom, with the keys and roots at hand.
#[derive(Debug, Clone)]
pub struct Policies {
    /// The user's own: where one covers an image, the catalog's do not count.
    own: Vec<Policy>,
    catalog: Vec<Policy>,
}

#[derive(Debug, Clone)]
struct Policy {
    prefix: ImagePrefix,
    asks: Asks,
}

#[derive(Debug, Clone)]
enum Asks {
    Nothing,
    Signature { of: Signers, required: bool },
}

#[derive(Debug, Clone)]
enum Signers {
    Keys(Vec<VerifyingKey>),
    Identity(Identity, TrustedRoot),
}

impl Signers {
    fn trust(&self) -> Trust<'_> {
        match self {
            Self::Keys(keys) => Trust::Keys(keys),
            Self::Identity(identity, root) => Trust::Identity(identity, root),
        }
    }
}

impl std::fmt::Display for Signers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Keys(keys) => {
                let keys: Vec<String> = keys
                    .iter()
                    .map(|key| format!("key {}", key.fingerprint()))
                    .collect();
                f.write_str(&keys.join(" or "))
            }
            Self::Identity(identity, _) => identity.fmt(f),
        }
    }
}

/// What there is of an image's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// No policy asks for one.
    NotAsked,
    /// There is none.
    None,
    /// It holds.
    Signature(Box<LockedSignature>),
}

/// A signature as it was found.
struct Published {
    bytes: Vec<u8>,
    digest: Digest,
}

impl Policies {
    /// The catalog's policies and those of a manifest, with the files that these name.
    ///
    /// # Errors
    /// A file cannot be read, or is no key or trusted root.
    pub fn load(catalog: &Catalog, own: &[SignaturePolicy]) -> Result<Self, FetchError> {
        let load = |policies: &[SignaturePolicy]| -> Result<Vec<Policy>, FetchError> {
            policies.iter().map(Policy::load).collect()
        };
        Ok(Self {
            own: load(own)?,
            catalog: load(&catalog.signatures())?,
        })
    }

    /// The policy for an image: of those that cover it, the one for the longest prefix.
    fn of(&self, image: &ImageRef) -> Option<&Policy> {
        longest(&self.own, image).or_else(|| longest(&self.catalog, image))
    }

    /// Fetches what its publisher has signed of an image into the cache, and verifies it.
    ///
    /// # Errors
    /// It does not hold, or cannot be had.
    pub async fn verify(
        &self,
        puller: &Puller,
        http: &Http,
        image: &LockedImage,
        previous: Option<&LockedSignature>,
    ) -> Result<Found, FetchError> {
        let Some((policy, of, _)) = self.asked_of(&image.name) else {
            return Ok(Found::NotAsked);
        };
        let place = image
            .name
            .with_tag(&image.signature_tag())
            .map_err(|error| FetchError::Resolve(error.to_string()))?;
        let pinned = previous.map(|signature| signature.manifest.digest);
        let refused = |reason: String| FetchError::Content {
            what: image.name.to_string(),
            reason,
        };
        let prefix = &policy.prefix;
        let Some(published) = published(puller, &place, pinned).await? else {
            return Ok(Found::None);
        };
        let wrong = |reason: &dyn std::fmt::Display| {
            refused(format!(
                "the policy for {prefix} wants a signature of {of}, and the one at {place} is not taken: \
                 {reason}.\nSomebody may have changed the image, or its publisher signs otherwise now: \
                 spec.signatures of the manifest says who shall be trusted."
            ))
        };
        let manifest = document::read(&published.bytes).map_err(|reason| wrong(&reason))?;
        for part in &manifest.parts {
            puller.blob(&place, &descriptor(part)).await?;
        }
        let cache = http.cache();
        let payload = |part: &Part| cache.read(&part.digest).map_err(|error| error.to_string());
        let by = sigstore::verify(&manifest, &payload, &image.manifest.digest, of.trust())
            .map_err(|reason: Unverified| wrong(&reason))?;
        Ok(Found::Signature(Box::new(LockedSignature {
            policy: prefix.clone(),
            by,
            manifest: Descriptor {
                media_type: manifest.media_type,
                digest: published.digest,
                size: published.bytes.len() as u64,
            },
            blobs: manifest.parts.iter().map(descriptor).collect(),
        })))
    }

    /// Whether these images may do without a signature.
    ///
    /// # Errors
    /// Those that may not.
    pub fn allow_unsigned(&self, images: &[ImageRef]) -> Result<(), FetchError> {
        let lacking = images.iter().filter_map(|image| {
            let (policy, of, required) = self.asked_of(image)?;
            required.then(|| format!("{image}: {} wants one of {of}", policy.prefix))
        });
        let lacking: Vec<String> = lacking.collect();
        match lacking.is_empty() {
            true => Ok(()),
            false => Err(FetchError::Content {
                what: "images without a signature, where a policy wants one".to_owned(),
                reason: format!(
                    "nothing was built of\n  {}\nWhere that is right, `mode: ifPresent` in the \
                     manifest's spec.signatures lets them pass.",
                    lacking.join("\n  ")
                ),
            }),
        }
    }

    fn asked_of(&self, image: &ImageRef) -> Option<(&Policy, &Signers, bool)> {
        let policy = self.of(image)?;
        match &policy.asks {
            Asks::Nothing => None,
            Asks::Signature { of, required } => Some((policy, of, *required)),
        }
    }
}

fn longest<'a>(policies: &'a [Policy], image: &ImageRef) -> Option<&'a Policy> {
    let covering = policies.iter().filter(|policy| policy.prefix.covers(image));
    covering.max_by_key(|policy| policy.prefix.length())
}

impl Policy {
    fn load(policy: &SignaturePolicy) -> Result<Self, FetchError> {
        let asks = match &policy.rule {
            Rule::Ignore => Asks::Nothing,
            Rule::Require(by) | Rule::IfPresent(by) => Asks::Signature {
                of: signers(by)?,
                required: matches!(policy.rule, Rule::Require(_)),
            },
        };
        Ok(Self {
            prefix: policy.prefix.clone(),
            asks,
        })
    }
}

fn signers(by: &SignedBy) -> Result<Signers, FetchError> {
    match by {
        SignedBy::Keys(paths) => {
            let keys = paths.iter().map(|path| {
                let text = String::from_utf8_lossy(&read(path)?).into_owned();
                let key = text.parse::<VerifyingKey>();
                key.map_err(|error| named(path, &error.reason))
            });
            Ok(Signers::Keys(keys.collect::<Result<_, FetchError>>()?))
        }
        SignedBy::Identity {
            identity,
            trusted_root,
        } => {
            let root = match trusted_root {
                None => TrustedRoot::public_instance().map_err(FetchError::Resolve)?,
                Some(path) => trusted_root_at(path)?,
            };
            Ok(Signers::Identity(identity.clone(), root))
        }
    }
}

/// Reads the roots of a Sigstore.
///
/// # Errors
/// The file cannot be read, or holds none.
pub fn trusted_root_at(path: &Path) -> Result<TrustedRoot, FetchError> {
    TrustedRoot::parse(&read(path)?).map_err(|reason| named(path, &reason))
}

fn read(path: &Path) -> Result<Vec<u8>, FetchError> {
    use std::io::Read;
    let failed = |error: std::io::Error| named(path, &format!("cannot be read: {error}"));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(LARGEST_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

fn named(path: &Path, reason: &str) -> FetchError {
    FetchError::Resolve(format!("{}: {reason}", path.display()))
}

fn descriptor(part: &Part) -> Descriptor {
    Descriptor {
        media_type: part.media_type.clone(),
        digest: part.digest,
        size: part.size,
    }
}

/// What stands under the tag; the one of the lock first, as far as it is still there.
async fn published(
    puller: &Puller,
    place: &ImageRef,
    pinned: Option<Digest>,
) -> Result<Option<Published>, FetchError> {
    for digest in pinned.map(Some).into_iter().chain([None]) {
        match puller.manifest(place, digest).await {
            Ok((bytes, digest)) => return Ok(Some(Published { bytes, digest })),
            Err(FetchError::Refused { status: 404, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
