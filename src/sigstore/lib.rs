//! Signatures that upstreams publish beside their images, as cosign makes them
//! (<https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md>), held against who must have
//! signed. All of it needs no network: what Sigstore's services said when the image was signed stands
//! beside the signature, and their keys are pinned.
//!
//! A *claim* is one signature. It signs a payload, which names the digest of an image's top manifest. It
//! holds by a public key, or by an *identity*: a certificate, good for minutes, of an authority that an
//! issuer has told who asked for it, and an entry of a log that says when it was used, or a timestamp
//! beside the entry that does.
//!
//! It comes in one of two forms: in annotations of a manifest under a tag ([`document`]), or as a document
//! of its own ([`bundle`]) in a manifest that names the image ([`referrer`]).
//!
//! Knows neither kubexm's bundles nor registries: documents come in as bytes, and every one is a stranger's.

mod body;
pub mod bundle;
mod certificate;
mod claim;
pub mod document;
mod entry;
pub mod file;
pub mod referrer;
mod timestamp;
mod transparency;
mod tree;
mod trusted_root;

use serde::{Deserialize, Serialize};

pub use document::{Claim, Part, SignatureManifest};
pub use trusted_root::TrustedRoot;

use kubexm_types::signature_policy::Identity;
use kubexm_types::{Digest, VerifyingKey};

/// Reasons that a message gives at most.
const TOLD: usize = 3;

/// Whose signature is taken.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// Any of these keys'.
    Keys(&'a [VerifyingKey]),
    /// Of somebody whom an authority of this root has certified.
    Identity(&'a Identity, &'a TrustedRoot),
}

/// Who signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Signer {
    /// Whoever has the secret half of this key.
    Key(VerifyingKey),
    /// Somebody with a certificate.
    Identity {
        /// An address for mail, or the URI of a workflow.
        subject: String,
        /// Whose word that is.
        issuer: String,
        /// SHA-256 of the file with the roots, where they are not the public instance's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trusted_root: Option<Digest>,
    },
}

impl Signer {
    /// Whoever a certificate by these roots shows.
    fn of(identity: &Identity, root: &TrustedRoot) -> Self {
        Self::Identity {
            subject: identity.identity.clone(),
            issuer: identity.issuer.clone(),
            trusted_root: root.own_digest(),
        }
    }
}

impl std::fmt::Display for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => write!(f, "key {}", key.fingerprint()),
            Self::Identity {
                subject, issuer, ..
            } => write!(f, "{subject} by {issuer}"),
        }
    }
}

/// Why a signature is not taken, as the rest of a sentence about the image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unverified(String);

/// Looks for a claim that names the image and that somebody has signed who is trusted. `payload` gives
/// what a claim signs.
///
/// # Errors
/// Why none holds.
pub fn verify(
    manifest: &SignatureManifest,
    payload: &dyn Fn(&Part) -> Result<Vec<u8>, String>,
    image: &Digest,
    trust: Trust<'_>,
) -> Result<Signer, Unverified> {
    let mut reasons = Vec::new();
    for claim in &manifest.claims {
        let checked =
            payload(&claim.payload).and_then(|payload| claim::check(claim, &payload, image, trust));
        match checked {
            Ok(signer) => return Ok(signer),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(Unverified::none_of(reasons))
}

impl Unverified {
    /// None of several signatures holds, each for its reason.
    pub fn none_of(reasons: Vec<String>) -> Self {
        // The same words once: an image may be signed many times.
        let count = reasons.len();
        let mut told: Vec<String> = Vec::new();
        for reason in reasons {
            if !told.contains(&reason) {
                told.push(reason);
            }
        }
        let more = if told.len() > TOLD { "; …" } else { "" };
        told.truncate(TOLD);
        let told = told.join("; ");
        Self(match count {
            0 => "carries no signature that cosign would know".to_owned(),
            1 => told,
            _ => format!("none of its {count} signatures holds: {told}{more}"),
        })
    }
}

/// A stranger's words, short and fit for a terminal.
fn shown(text: &str) -> String {
    text.chars()
        .take(200)
        .flat_map(char::escape_default)
        .collect()
}

/// A point in time for people, in UTC.
fn at(seconds: i64) -> String {
    let format = time::format_description::well_known::Rfc3339;
    time::OffsetDateTime::from_unix_timestamp(seconds)
        .ok()
        .and_then(|time| time.format(&format).ok())
        .unwrap_or_else(|| shown(&seconds.to_string()))
}
