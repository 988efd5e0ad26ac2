//! Sigstore bundles: a signature with everything that is needed to verify it, in one document
//! (<https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto>). cosign attaches
//! them to images since its version 3
//! (<https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md>).

mod certified;
mod document;
mod entry;
mod envelope;

use document::{Document, Material};
use kubexm_types::Digest;

pub(super) use document::{Certified, MEDIA_TYPE_PREFIX};
pub(super) use entry::Entry;
pub(super) use envelope::Statement;

/// A signature, in a form that all formats are converted to. Nothing in it is verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    pub(super) by: SignedBy,
    pub(super) content: Content,
    pub(super) signature: Vec<u8>,
}

/// How the signer is identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignedBy {
    /// By a key that the bundle does not contain.
    Key,
    /// By a certificate with evidence of when it was used.
    Certificate(Certified),
    /// By a certificate in DER, without evidence of when it was used. Only signatures of files in files
    /// of their own have this form; a bundle document never does.
    CertificateWithoutTime(Vec<u8>),
}

/// The signed content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// The bytes of the artifact; their digest, if the signature states it.
    Message(Option<Digest>),
    /// A statement about the artifact: the signed encoding and the payload itself.
    Statement { signed: Vec<u8>, payload: Vec<u8> },
    /// A payload that names an image, in cosign's older signatures.
    SimpleSigning(Vec<u8>),
}

/// Parses a bundle.
///
/// # Errors
/// The bytes are not a bundle. The text completes a sentence about them.
pub fn read(bytes: &[u8]) -> Result<Bundle, String> {
    let document = Document::read(bytes)?;
    let by = match document.material()? {
        Material::Key => SignedBy::Key,
        Material::Certificate(certified) => SignedBy::Certificate(certified),
    };
    let (content, signature) = match document.content()? {
        document::Content::Message { digest, signature } => {
            (Content::Message(Some(digest)), signature)
        }
        document::Content::Envelope(envelope) => {
            let envelope::Opened {
                signed,
                payload,
                signature,
            } = envelope.open()?;
            (Content::Statement { signed, payload }, signature)
        }
    };
    Ok(Bundle {
        by,
        content,
        signature,
    })
}

impl Bundle {
    /// Whether the bundle is a signature of an image and not another attestation, such as an SBOM or
    /// provenance.
    pub fn is_signature(&self) -> bool {
        match &self.content {
            Content::Message(_) | Content::SimpleSigning(_) => true,
            Content::Statement { payload, .. } => {
                Statement::read(payload).is_ok_and(|statement| statement.is_signature())
            }
        }
    }
}
