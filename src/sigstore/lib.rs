//! Verifies the signatures that publishers attach to images and files with cosign
//! (<https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md>). Verification needs no network:
//! the attestations of Sigstore's services are stored with the signature, and their keys are pinned.
//!
//! [`verify()`] is the only verifier. Its input is a [`Bundle`], an [`Artifact`] and whom to [`Trust`]: a
//! public key, or an *identity* under a trusted root. An identity needs a short-lived certificate from a
//! trusted authority, and proof of the time of signing: a transparency log entry or an RFC 3161 timestamp.
//!
//! Signatures have three forms, and all of them become a bundle first. The newest is a Sigstore bundle
//! ([`bundle`]) in a manifest that refers to the image ([`referrer`]). The older one is annotations of a
//! manifest under a tag ([`document`]). Signatures of files are files beside them ([`file`]).
//!
//! This crate does not depend on kubexm's bundles or on registries. Its input is bytes, and none of them
//! is trusted.

pub mod bundle;
mod cause;
mod certificate;
pub mod document;
pub mod file;
pub mod limits;
mod log_entry;
pub mod referrer;
mod rekor_entry_body;
pub mod simple_signing;
mod text;
mod timestamp;
mod transparency;
mod tree;
mod trusted_root;
mod verify;

use serde::{Deserialize, Serialize};

pub use bundle::Bundle;
pub use document::{Claim, Part, SignatureManifest};
pub use trusted_root::TrustedRoot;
pub use verify::{Artifact, verify, verify_any};

use kubexm_types::signature_policy::Identity;
use kubexm_types::{Digest, VerifyingKey};

/// Maximum number of causes in an error message.
const MOST_CAUSES: usize = 3;

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

/// Why the signature of an artifact is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot verify the signature of {artifact}: {cause}")]
pub struct Unverified {
    artifact: Digest,
    cause: String,
    is_of_unknown_log: bool,
}

impl Unverified {
    /// Returns the cause alone, for a text that names the artifact in another way. It completes a sentence
    /// that begins with "the signature is not valid:".
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// Whether a newer trusted root may accept the signature, because the trusted root does not contain the log
    /// that recorded it.
    pub fn is_of_unknown_log(&self) -> bool {
        self.is_of_unknown_log
    }
}

/// Combines the causes why each of several signatures is not valid.
pub fn none_of(causes: Vec<String>) -> String {
    // Repeated causes are shown once, because an image may have many signatures.
    let count = causes.len();
    let mut shown: Vec<String> = Vec::new();
    for cause in causes {
        if !shown.contains(&cause) {
            shown.push(cause);
        }
    }
    let more = if shown.len() > MOST_CAUSES {
        "; …"
    } else {
        ""
    };
    shown.truncate(MOST_CAUSES);
    let shown = shown.join("; ");
    match count {
        0 => "it does not carry a cosign signature".to_owned(),
        1 => shown,
        _ => format!("none of its {count} signatures is valid: {shown}{more}"),
    }
}
