//! Signature policies for images and files, with their keys and trusted roots loaded.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::FetchError;
use kubexm_catalog::Catalog;
use kubexm_sigstore::{Trust, TrustedRoot};
use kubexm_types::signature_policy::{Identity, NamePrefix, Rule, SignaturePolicy, SignedBy};
use kubexm_types::{ImageRef, VerifyingKey};

/// Maximum size of a key file or a trusted root, in bytes.
const LARGEST_FILE: u64 = 1024 * 1024;

/// Signature policies with their keys and trusted roots.
#[derive(Debug, Clone)]
pub struct Policies {
    /// The user's policies. If one covers an image, the catalog's policies do not apply.
    own: Vec<Policy>,
    catalog: Vec<Policy>,
    /// Held while a whole file is in memory, because programs are large and several arrive at once.
    pub(super) reading: Arc<Mutex<()>>,
}

#[derive(Debug, Clone)]
struct Policy {
    prefix: NamePrefix,
    asks: Asks,
}

#[derive(Debug, Clone)]
enum Asks {
    Nothing,
    Signature { of: Signers, required: bool },
}

#[derive(Debug, Clone)]
pub(super) enum Signers {
    Keys(Vec<VerifyingKey>),
    Identity(Identity, TrustedRoot),
}

impl Signers {
    pub fn are_keys(&self) -> bool {
        matches!(self, Self::Keys(_))
    }

    pub fn trust(&self) -> Trust<'_> {
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

impl Policies {
    /// Loads the policies of the catalog and of a manifest, with the files that they name.
    ///
    /// # Errors
    /// A file cannot be read, or is not a key or a trusted root.
    pub fn load(catalog: &Catalog, own: &[SignaturePolicy]) -> Result<Self, FetchError> {
        let load = |policies: &[SignaturePolicy]| -> Result<Vec<Policy>, FetchError> {
            policies.iter().map(Policy::load).collect()
        };
        Ok(Self {
            own: load(own)?,
            catalog: load(&catalog.signatures())?,
            reading: Arc::default(),
        })
    }

    /// Checks that no policy requires a signature of these images, which have none.
    ///
    /// # Errors
    /// The images for which a policy requires one.
    pub fn allow_unsigned(&self, images: &[ImageRef]) -> Result<(), FetchError> {
        let lacking = images.iter().filter_map(|image| {
            let wanted = self.wanted_of_image(image)?;
            let reason = || {
                format!(
                    "{image}: {} requires one of {}",
                    wanted.prefix, wanted.signers
                )
            };
            wanted.required.then(reason)
        });
        let lacking: Vec<String> = lacking.collect();
        match lacking.is_empty() {
            true => Ok(()),
            false => Err(FetchError::Content {
                what: "images without a required signature".to_owned(),
                reason: format!(
                    "a signature policy requires one\n  {}\nhint: to allow unsigned images, set `mode: ifPresent` \
                     in spec.signatures of the bundle manifest",
                    lacking.join("\n  ")
                ),
            }),
        }
    }

    /// Returns the policy for an image by its name, or for a file by its address.
    pub(super) fn wanted_of(&self, name: &str) -> Option<Wanted<'_>> {
        let policy = longest(&self.own, name).or_else(|| longest(&self.catalog, name))?;
        match &policy.asks {
            Asks::Nothing => None,
            Asks::Signature { of, required } => Some(Wanted {
                prefix: &policy.prefix,
                signers: of,
                required: *required,
            }),
        }
    }

    pub(super) fn wanted_of_image(&self, image: &ImageRef) -> Option<Wanted<'_>> {
        self.wanted_of(&format!("{}/{}", image.registry(), image.repository()))
    }
}

/// The requirement of a policy.
pub(super) struct Wanted<'a> {
    pub prefix: &'a NamePrefix,
    pub signers: &'a Signers,
    pub required: bool,
}

/// Returns the policy with the longest prefix that covers a name.
fn longest<'a>(policies: &'a [Policy], name: &str) -> Option<&'a Policy> {
    let covering = policies.iter().filter(|policy| policy.prefix.covers(name));
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

/// Reads a trusted root of Sigstore.
///
/// # Errors
/// The file cannot be read, or is not a trusted root.
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
