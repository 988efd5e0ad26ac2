//! Which images and files must be signed by whom, with the keys and roots at hand.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::FetchError;
use kubexm_catalog::Catalog;
use kubexm_sigstore::{Trust, TrustedRoot};
use kubexm_types::signature_policy::{Identity, NamePrefix, Rule, SignaturePolicy, SignedBy};
use kubexm_types::{ImageRef, VerifyingKey};

/// A key file or a trusted root is never larger, in bytes.
const LARGEST_FILE: u64 = 1024 * 1024;

/// Which images must be signed by whom, with the keys and roots at hand.
#[derive(Debug, Clone)]
pub struct Policies {
    /// The user's own: where one covers an image, the catalog's do not count.
    own: Vec<Policy>,
    catalog: Vec<Policy>,
    /// Whoever holds it may read a file whole: programs are large, and come several at once.
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
            reading: Arc::default(),
        })
    }

    /// Whether these images may do without a signature.
    ///
    /// # Errors
    /// Those that may not.
    pub fn allow_unsigned(&self, images: &[ImageRef]) -> Result<(), FetchError> {
        let lacking = images.iter().filter_map(|image| {
            let wanted = self.wanted_of_image(image)?;
            let words = || format!("{image}: {} wants one of {}", wanted.prefix, wanted.signers);
            wanted.required.then(words)
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

    /// What is asked of an image by its name, or of a file by its address.
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

/// What a policy asks of something.
pub(super) struct Wanted<'a> {
    pub prefix: &'a NamePrefix,
    pub signers: &'a Signers,
    pub required: bool,
}

/// Of those that cover a name, the one for the longest prefix.
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
