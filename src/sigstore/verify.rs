//! The verification of a bundle. It has three parts, in this order: the signed bytes are about the artifact,
//! the signer is trusted, and the signer's key made the signature of those bytes.

use super::bundle::{Bundle, Content, SignedBy, Statement};
use super::rekor_entry_body::{ExpectedEntry, Kind};
use super::{Signer, Trust, Unverified, certificate, none_of, simple_signing};
use crate::cause::Cause;
use kubexm_types::Digest;

/// What a signature must be of.
#[derive(Debug, Clone, Copy)]
pub enum Artifact<'a> {
    /// An image. Only cosign's signatures of images count, not other attestations, such as an SBOM or
    /// provenance.
    Image {
        /// The digest of the top manifest.
        digest: &'a Digest,
        /// The bytes of the top manifest.
        manifest: &'a [u8],
    },
    /// A file with this content. An in-toto statement about it counts, too, whatever its predicate.
    File(&'a [u8]),
}

/// Returns the signer of an artifact, if the bundle proves one that is trusted.
///
/// # Errors
/// The reason why it does not.
pub fn verify(
    bundle: &Bundle,
    artifact: Artifact<'_>,
    trust: Trust<'_>,
) -> Result<Signer, Unverified> {
    check(bundle, artifact, trust).map_err(|cause| artifact.unverified(cause))
}

/// Returns the signer of the first of several bundles that proves one. A bundle that cannot be read counts
/// as one that is not valid.
///
/// # Errors
/// No bundle proves a trusted signer; the error has the reason of each.
pub fn verify_any(
    bundles: impl Iterator<Item = Result<Bundle, String>>,
    artifact: Artifact<'_>,
    trust: Trust<'_>,
) -> Result<Signer, Unverified> {
    let mut reasons = Vec::new();
    for bundle in bundles {
        let bundle = bundle.map_err(Cause::from);
        match bundle.and_then(|bundle| check(&bundle, artifact, trust)) {
            Ok(signer) => return Ok(signer),
            Err(reason) => reasons.push(reason),
        }
    }
    let is_of_unknown_log = reasons.iter().any(|reason| reason.is_of_unknown_log);
    let texts = reasons.into_iter().map(|reason| reason.text).collect();
    Err(artifact.unverified(Cause {
        text: none_of(texts),
        is_of_unknown_log,
    }))
}

fn check(bundle: &Bundle, artifact: Artifact<'_>, trust: Trust<'_>) -> Result<Signer, Cause> {
    let signed = signed_bytes(&bundle.content, artifact)?;
    let signature = &bundle.signature;
    match trust {
        Trust::Keys(keys) => {
            let mut keys = keys.iter();
            let key = keys.find(|key| key.verifies(signed, signature));
            key.map(|key| Signer::Key(key.clone()))
                .ok_or_else(|| not_by_key(&bundle.by).into())
        }
        Trust::Identity(identity, root) => {
            let key = match &bundle.by {
                SignedBy::Key => Err(
                    "it was made with a key and has no certificate; use a policy with that key"
                        .into(),
                ),
                SignedBy::Certificate(certified) => {
                    let expected = expected_entry(bundle, signed, &certified.certificate);
                    certified.key(&expected, identity, root)
                }
                SignedBy::CertificateWithoutTime(der) => {
                    certificate::check(der, identity, certificate::begin(der)?, root)
                }
            };
            if key?.verifies(signed, signature) {
                Ok(Signer::of(identity, root))
            } else {
                Err("its signature is of other content or by another key".into())
            }
        }
    }
}

/// Returns the bytes that must be signed, if they are about the artifact.
fn signed_bytes<'a>(content: &'a Content, artifact: Artifact<'a>) -> Result<&'a [u8], String> {
    match (content, artifact) {
        (Content::Message(named), artifact) => {
            let bytes = artifact.bytes()?;
            match named {
                Some(named) if *named != artifact.digest() => {
                    Err(format!("it is a signature of {named}"))
                }
                _ => Ok(bytes),
            }
        }
        (Content::Statement { signed, payload }, artifact) => {
            let statement = Statement::read(payload)?;
            if matches!(artifact, Artifact::Image { .. }) {
                statement.must_be_signature()?;
            }
            statement.must_be_of(&artifact.digest())?;
            Ok(signed)
        }
        (Content::SimpleSigning(payload), Artifact::Image { digest, .. }) => {
            let named = simple_signing::image_of(payload)?;
            if named == *digest {
                Ok(payload)
            } else {
                Err(format!("it is a signature of {named}"))
            }
        }
        (Content::SimpleSigning(_), Artifact::File(_)) => {
            Err("it is a signature of an image, not of a file".to_owned())
        }
    }
}

impl<'a> Artifact<'a> {
    fn digest(self) -> Digest {
        match self {
            Self::Image { digest, .. } => *digest,
            Self::File(content) => Digest::of(content),
        }
    }

    fn unverified(self, cause: Cause) -> Unverified {
        Unverified {
            artifact: self.digest(),
            cause: cause.text,
            is_of_unknown_log: cause.is_of_unknown_log,
        }
    }

    fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Image { digest, manifest } if Digest::of(manifest) != *digest => {
                Err("the image's manifest was changed".to_owned())
            }
            Self::Image { manifest, .. } => Ok(manifest),
            Self::File(content) => Ok(content),
        }
    }
}

/// Returns the values that a log entry of the bundle must have.
fn expected_entry<'a>(
    bundle: &'a Bundle,
    signed: &'a [u8],
    certificate: &'a [u8],
) -> ExpectedEntry<'a> {
    let (kinds, payload): (&[Kind], &[u8]) = match &bundle.content {
        Content::Message(_) => (&[Kind::HashedRekord, Kind::HashedRekord2], signed),
        Content::SimpleSigning(_) => (&[Kind::HashedRekord, Kind::Rekord], signed),
        Content::Statement { payload, .. } => {
            (&[Kind::Dsse, Kind::HashedRekord2, Kind::Dsse2], payload)
        }
    };
    ExpectedEntry {
        kinds,
        signed,
        payload,
        signature: &bundle.signature,
        certificate,
    }
}

fn not_by_key(by: &SignedBy) -> &'static str {
    match by {
        SignedBy::Key => "it was not made with a key of the policy",
        SignedBy::Certificate(_) | SignedBy::CertificateWithoutTime(_) => {
            "it was made by an identity, not with a key of the policy; use a policy with that \
             identity"
        }
    }
}
