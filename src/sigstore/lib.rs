//! Verifies the signatures that publishers attach to images and files with cosign
//! (<https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md>). Verification needs no network:
//! the attestations of Sigstore's services are stored with the signature, and their keys are pinned.
//!
//! A *claim* is one signature over a payload that names the digest of an image's top manifest. It is valid
//! by a public key or by an *identity*. An identity needs a short-lived certificate from a trusted
//! authority, and proof of the time of signing: a transparency log entry or an RFC 3161 timestamp.
//!
//! A claim has one of two forms. The older form is annotations of a manifest under a tag ([`document`]).
//! The newer form is a Sigstore bundle ([`bundle`]) in a manifest that refers to the image ([`referrer`]).
//!
//! This crate does not depend on kubexm's bundles or on registries. Its input is bytes, and none of them
//! is trusted.

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

/// Maximum number of reasons in an error message.
const TOLD: usize = 3;

/// What a signature must be verified with.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// Accepts a signature by any of these keys.
    Keys(&'a [VerifyingKey]),
    /// Accepts a signature by this identity, certified by an authority of this root.
    Identity(&'a Identity, &'a TrustedRoot),
}

/// The verified signer of an image or a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Signer {
    /// The holder of the private key of this public key.
    Key(VerifyingKey),
    /// The subject of a certificate.
    Identity {
        /// An e-mail address or the URI of a workflow.
        subject: String,
        /// The OpenID Connect issuer that authenticated the subject.
        issuer: String,
        /// SHA-256 of the trusted root's file, unless it is the public instance's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trusted_root: Option<Digest>,
    },
}

impl Signer {
    /// Returns the signer for an identity that a certificate under this root proves.
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

/// Why a signature is not accepted; the text completes a sentence about the image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unverified(String);

/// Returns the signer of the first claim that names the image and is signed by a trusted signer.
/// `payload` returns the signed payload of a claim.
///
/// # Errors
/// No claim is valid; the error has the reason of each.
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
    /// Combines the reasons why each of several signatures is not valid.
    pub fn none_of(reasons: Vec<String>) -> Self {
        // Repeated reasons are shown once, because an image may have many signatures.
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
            0 => "does not carry a cosign signature".to_owned(),
            1 => told,
            _ => format!("none of its {count} signatures is valid: {told}{more}"),
        })
    }
}

/// Returns untrusted text shortened and escaped for a terminal.
fn shown(text: &str) -> String {
    text.chars()
        .take(200)
        .flat_map(char::escape_default)
        .collect()
}

/// Formats a time, in seconds since 1970, as RFC 3339 in UTC.
fn at(seconds: i64) -> String {
    let format = time::format_description::well_known::Rfc3339;
    time::OffsetDateTime::from_unix_timestamp(seconds)
        .ok()
        .and_then(|time| time.format(&format).ok())
        .unwrap_or_else(|| shown(&seconds.to_string()))
}
