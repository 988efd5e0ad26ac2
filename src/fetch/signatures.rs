//! Signature policies for images and files, with their keys and trusted roots loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;

use super::FetchError;
use kubexm_catalog::Catalog;
use kubexm_config::Mirrors;
use kubexm_sigstore::{Signer, Trust, TrustedRoot, Unverified};
use kubexm_types::signature_policy::{Identity, NamePrefix, Rule, SignaturePolicy, SignedBy};
use kubexm_types::{ImageRef, Message, VerifyingKey, Version};

/// Maximum size of a key file or a trusted root, in bytes.
const LARGEST_FILE: u64 = 1024 * 1024;

/// The action for a signature that a log recorded that no trusted root contains.
pub(super) const UNKNOWN_LOG_HINT: &str = "Sigstore may have opened a new log: use a newer kubexm, or give \
    Sigstore's current trusted root (trusted_root.json of github.com/sigstore/root-signing) with --trusted-root";

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
    Signature {
        of: Box<Signers>,
        required: Required,
    },
}

/// Which versions must be signed.
#[derive(Debug, Clone)]
enum Required {
    All,
    Since(Version),
    /// A signature may be missing.
    None,
}

#[derive(Debug, Clone)]
pub(super) enum Signers {
    Keys(Vec<VerifyingKey>),
    /// Any of these identities, under any of these roots.
    Identities(Vec<Identity>, Vec<TrustedRoot>),
}

/// Why a signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejected {
    /// Completes a sentence that begins with "the signature is not valid:".
    pub cause: String,
    /// Whether a newer trusted root may accept it.
    pub is_of_unknown_log: bool,
}

impl From<String> for Rejected {
    fn from(cause: String) -> Self {
        Self {
            cause,
            is_of_unknown_log: false,
        }
    }
}

impl Signers {
    pub fn are_keys(&self) -> bool {
        matches!(self, Self::Keys(_))
    }

    /// Verifies a signature with each accepted signer until one is proven.
    ///
    /// # Errors
    /// No signer is proven; the reasons, each once.
    pub fn verify(
        &self,
        check: impl Fn(Trust<'_>) -> Result<Signer, Unverified>,
    ) -> Result<Signer, Rejected> {
        let all: Vec<Trust<'_>> = match self {
            Self::Keys(keys) => vec![Trust::Keys(keys)],
            Self::Identities(identities, roots) => {
                let of_root = |root| identities.iter().map(move |by| Trust::Identity(by, root));
                roots.iter().flat_map(of_root).collect()
            }
        };
        let mut causes: Vec<String> = Vec::new();
        let mut unknown_logs = 0;
        let count = all.len();
        for trust in all {
            match check(trust) {
                Ok(signer) => return Ok(signer),
                Err(error) => {
                    unknown_logs += usize::from(error.is_of_unknown_log());
                    if !causes.iter().any(|cause| cause == error.cause()) {
                        causes.push(error.cause().to_owned());
                    }
                }
            }
        }
        Err(Rejected {
            cause: causes.join("; "),
            is_of_unknown_log: unknown_logs == count,
        })
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
            Self::Identities(identities, _) => {
                let identities: Vec<String> = identities.iter().map(Identity::to_string).collect();
                f.write_str(&identities.join(" or "))
            }
        }
    }
}

impl Policies {
    /// Loads the policies of the catalog and of a manifest, with the files that they name. `roots` are trusted in
    /// addition to the root of the public instance, where a policy does not name its own root.
    ///
    /// # Errors
    /// A file cannot be read, or is not a key or a trusted root.
    pub fn load(
        catalog: &Catalog,
        own: &[SignaturePolicy],
        roots: &[TrustedRoot],
    ) -> Result<Self, FetchError> {
        let public = TrustedRoot::public_instance().map_err(FetchError::resolve)?;
        // The built-in root first: signatures that it accepts need no other file when a bundle is verified.
        let roots: Vec<TrustedRoot> = std::iter::once(public).chain(roots.to_vec()).collect();
        let load = |policies: &[SignaturePolicy]| -> Result<Vec<Policy>, FetchError> {
            let load = |policy| Policy::load(policy, &roots);
            policies.iter().map(load).collect()
        };
        Ok(Self {
            own: load(own)?,
            catalog: load(&catalog.signatures())?,
            reading: Arc::default(),
        })
    }

    /// Returns why content without a signature may be used, by the name of an image without its tag, or the URL
    /// of a file without `https://`.
    pub(super) fn unsigned(
        &self,
        mirrors: &Mirrors,
        name: &str,
        version: Option<&Version>,
    ) -> Unsigned<'_> {
        let (own, catalog) = (longest(&self.own, name), longest(&self.catalog, name));
        let published = catalog.and_then(|policy| policy.required(version));
        let own_prefix = own.map(|policy| &policy.prefix);
        match (own.and_then(|policy| policy.required(version)), published) {
            (Some(wanted), _) => Unsigned::Refused(wanted, Policies::OWN_HINT.to_owned()),
            (None, Some(wanted)) => match own_prefix.or_else(|| mirrors.allows_unsigned(name)) {
                Some(prefix) => Unsigned::Allowed(prefix.clone()),
                None => {
                    let hint = Policies::catalog_hint(wanted.prefix);
                    Unsigned::Refused(wanted, hint)
                }
            },
            (None, None) => Unsigned::NotRequired,
        }
    }

    const OWN_HINT: &str = "set the trusted signers in spec.signatures of the bundle manifest; \
        `mode: ifPresent` there accepts a missing signature";

    const INCOMPLETE_HINT: &str = "the registry may have the whole signature in another region only; \
        name an address that has it under `registries` of the mirrors file (--mirrors)";

    fn catalog_hint(prefix: &NamePrefix) -> String {
        format!(
            "the publisher signs this version, so a mirror may have removed the signature; to accept it without, \
             set `{{prefix: {prefix}, mode: ignore}}` in spec.signatures of the bundle manifest, \
             or `allowUnsigned: [{prefix}]` in the mirrors file (--mirrors)"
        )
    }

    /// Returns the prefixes that allow these images, which have no complete signature, to be used without it.
    /// `incomplete` has the reason for the images that have a part of one.
    ///
    /// # Errors
    /// The images for which a signature is required.
    pub fn allow_unsigned(
        &self,
        mirrors: &Mirrors,
        images: &[ImageRef],
        incomplete: &BTreeMap<ImageRef, String>,
    ) -> Result<BTreeMap<ImageRef, NamePrefix>, FetchError> {
        let (mut allowed, mut refused, mut hints) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        for image in images {
            match self.unsigned(mirrors, &name_of(image), version_of(image).as_ref()) {
                Unsigned::NotRequired => {}
                Unsigned::Allowed(prefix) => drop(allowed.insert(image.clone(), prefix)),
                Unsigned::Refused(wanted, hint) => {
                    let why = incomplete.get(image).map(|why| format!("; {why}"));
                    refused.push(format!(
                        "{image}: {} requires one of {}{}",
                        wanted.prefix,
                        wanted.signers,
                        why.as_deref().unwrap_or_default()
                    ));
                    hints.insert(match why {
                        Some(_) => Policies::INCOMPLETE_HINT.to_owned(),
                        None => hint,
                    });
                }
            }
        }
        if refused.is_empty() {
            return Ok(allowed);
        }
        let hints: Vec<String> = hints.into_iter().collect();
        Err(FetchError::Content {
            what: "images without a required signature".to_owned(),
            reason: Message::new(format!(
                "a signature policy requires one\n  {}",
                refused.join("\n  ")
            ))
            .hint(hints.join("; ")),
        })
    }

    /// Returns the policy for an image by its name, or for a file by its address.
    pub(super) fn wanted_of(&self, name: &str) -> Option<Wanted<'_>> {
        let policy = longest(&self.own, name).or_else(|| longest(&self.catalog, name))?;
        policy.wanted()
    }

    pub(super) fn wanted_of_image(&self, image: &ImageRef) -> Option<Wanted<'_>> {
        self.wanted_of(&name_of(image))
    }
}

/// The accepted signers of a policy.
pub(super) struct Wanted<'a> {
    pub prefix: &'a NamePrefix,
    pub signers: &'a Signers,
}

/// Whether content without a signature may be used.
pub(super) enum Unsigned<'a> {
    /// No policy requires a signature.
    NotRequired,
    /// The publisher signs this version, and this prefix of the mirror file or of the manifest allows that the
    /// signature is missing.
    Allowed(NamePrefix),
    /// A signature is required; with a hint for the user.
    Refused(Wanted<'a>, String),
}

/// Returns the name of an image for policies.
fn name_of(image: &ImageRef) -> String {
    format!("{}/{}", image.registry(), image.repository())
}

/// Returns the version that a tag names, as in `v1.36.3`, `3.10` or `3.6.8-0`.
fn version_of(image: &ImageRef) -> Option<Version> {
    let tag = image.tag()?;
    let bare = tag.strip_prefix('v').unwrap_or(tag);
    let end = bare.find(['-', '+']).unwrap_or(bare.len());
    let (numbers, rest) = bare.split_at(end);
    let missing = 3usize.checked_sub(numbers.split('.').count())?;
    Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))).ok()
}

/// Returns the policy with the longest prefix that covers a name.
fn longest<'a>(policies: &'a [Policy], name: &str) -> Option<&'a Policy> {
    let covering = policies.iter().filter(|policy| policy.prefix.covers(name));
    covering.max_by_key(|policy| policy.prefix.length())
}

impl Policy {
    fn load(policy: &SignaturePolicy, roots: &[TrustedRoot]) -> Result<Self, FetchError> {
        let signers = |by| signers(by, roots);
        let asks = match &policy.rule {
            Rule::Ignore => Asks::Nothing,
            Rule::Require(by) => Asks::Signature {
                of: Box::new(signers(by)?),
                required: Required::All,
            },
            Rule::RequireSince(by, version) => Asks::Signature {
                of: Box::new(signers(by)?),
                required: Required::Since(version.clone()),
            },
            Rule::IfPresent(by) => Asks::Signature {
                of: Box::new(signers(by)?),
                required: Required::None,
            },
        };
        Ok(Self {
            prefix: policy.prefix.clone(),
            asks,
        })
    }

    fn wanted(&self) -> Option<Wanted<'_>> {
        match &self.asks {
            Asks::Nothing => None,
            Asks::Signature { of, .. } => Some(Wanted {
                prefix: &self.prefix,
                signers: of,
            }),
        }
    }

    /// Returns the accepted signers, if a signature of this version is required. A version that cannot be
    /// determined is taken for a new one.
    fn required(&self, version: Option<&Version>) -> Option<Wanted<'_>> {
        let is_required = match &self.asks {
            Asks::Nothing => false,
            Asks::Signature { required, .. } => match required {
                Required::All => true,
                Required::Since(since) => version.is_none_or(|version| version >= since),
                Required::None => false,
            },
        };
        self.wanted().filter(|_| is_required)
    }
}

fn signers(by: &SignedBy, roots: &[TrustedRoot]) -> Result<Signers, FetchError> {
    match by {
        SignedBy::Keys(paths) => {
            let keys = paths.iter().map(|path| {
                let text = String::from_utf8_lossy(&read(path)?).into_owned();
                let key = text.parse::<VerifyingKey>();
                key.map_err(|error| named(path, &error.reason))
            });
            Ok(Signers::Keys(keys.collect::<Result<_, FetchError>>()?))
        }
        SignedBy::Identities {
            identities,
            trusted_root,
        } => {
            let roots = match trusted_root {
                None => roots.to_vec(),
                Some(path) => vec![trusted_root_at(path)?],
            };
            Ok(Signers::Identities(identities.clone(), roots))
        }
    }
}

/// Reads trusted roots of Sigstore.
///
/// # Errors
/// A file cannot be read, or is not a trusted root.
pub fn trusted_roots(files: &[PathBuf]) -> Result<Vec<TrustedRoot>, FetchError> {
    files.iter().map(|path| trusted_root_at(path)).collect()
}

fn trusted_root_at(path: &Path) -> Result<TrustedRoot, FetchError> {
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
    FetchError::resolve(format!("{}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirrors(allowed: &str) -> Mirrors {
        let head = "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\nallowUnsigned: ";
        kubexm_config::parse_mirrors("m", &format!("{head}{allowed}")).unwrap()
    }

    fn judge(own: &[SignaturePolicy], allowed: &str, image: &str) -> String {
        let policies = Policies::load(&Catalog::embedded().unwrap(), own, &[]).unwrap();
        let image: ImageRef = image.parse().unwrap();
        let version = version_of(&image);
        match policies.unsigned(&mirrors(allowed), &name_of(&image), version.as_ref()) {
            Unsigned::NotRequired => "not required".to_owned(),
            Unsigned::Allowed(prefix) => format!("allowed by {prefix}"),
            Unsigned::Refused(wanted, _) => format!("refused by {}", wanted.prefix),
        }
    }

    #[test]
    fn publishers_must_sign_from_their_first_signed_version_on() {
        for (image, expected) in [
            (
                "registry.k8s.io/kube-proxy:v1.36.3",
                "refused by registry.k8s.io/kube-proxy",
            ),
            ("registry.k8s.io/kube-proxy:v1.23.17", "not required"),
            (
                "registry.k8s.io/kube-proxy:custom",
                "refused by registry.k8s.io/kube-proxy",
            ),
            (
                "registry.k8s.io/pause:3.10",
                "refused by registry.k8s.io/pause",
            ),
            ("registry.k8s.io/pause:3.6", "not required"),
            (
                "registry.k8s.io/etcd:3.6.8-0",
                "refused by registry.k8s.io/etcd",
            ),
            ("registry.k8s.io/coredns/coredns:v1.8.0", "not required"),
            (
                "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
                "not required",
            ),
            ("docker.io/library/nginx:1.29", "not required"),
        ] {
            assert_eq!(judge(&[], "[]", image), expected, "{image}");
        }
    }

    #[test]
    fn only_named_prefixes_may_be_unsigned() {
        let pause = "registry.k8s.io/pause:3.10";
        let allowed = "allowed by registry.k8s.io";
        assert_eq!(judge(&[], "[registry.k8s.io]", pause), allowed);
        assert_eq!(
            judge(&[], "[dl.k8s.io]", pause),
            "refused by registry.k8s.io/pause"
        );
        let own = |rule| SignaturePolicy {
            prefix: "registry.k8s.io".parse().unwrap(),
            rule,
        };
        assert_eq!(judge(&[own(Rule::Ignore)], "[]", pause), allowed);
        // The mirror file does not weaken the user's own policy.
        let strict = own(Rule::Require(SignedBy::Keys(Vec::new())));
        let refused = "refused by registry.k8s.io";
        assert_eq!(judge(&[strict], "[registry.k8s.io]", pause), refused);
    }
}
