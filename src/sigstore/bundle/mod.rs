//! Sigstore bundles: a signature with everything that is needed to verify it, in one document
//! (<https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto>). cosign attaches
//! them to images since its version 3
//! (<https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md>).

mod certified;
mod document;
mod entry;
mod envelope;

use document::{Certified, Document, Material};
use envelope::Statement;

use super::body::{Kind, Noted};
use super::{Signer, Trust, Unverified};
use kubexm_types::Digest;

/// The image whose signature is verified.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// The digest of the top manifest.
    pub digest: &'a Digest,
    /// The bytes of the top manifest.
    pub manifest: &'a [u8],
}

/// A parsed bundle. Nothing in it is verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    by: Proof,
    content: Content,
    signature: Vec<u8>,
}

/// How the signer is identified.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Proof {
    /// By a key that the bundle does not contain.
    Key,
    /// By a certificate with evidence of when it was used.
    Certificate(Certified),
}

/// The signed content.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// The bytes of an image's manifest, by their digest.
    Manifest(Digest),
    /// A statement about an image: the signed encoding and the payload itself.
    Statement { signed: Vec<u8>, payload: Vec<u8> },
}

/// Parses a bundle.
///
/// # Errors
/// The bytes are not a bundle. The text completes a sentence about them.
pub fn read(bytes: &[u8]) -> Result<Bundle, String> {
    let document = Document::read(bytes)?;
    let by = match document.material()? {
        Material::Key => Proof::Key,
        Material::Certificate(certified) => Proof::Certificate(certified),
    };
    let (content, signature) = match document.content()? {
        document::Content::Message { digest, signature } => (Content::Manifest(digest), signature),
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
            Content::Manifest(_) => true,
            Content::Statement { payload, .. } => {
                Statement::read(payload).is_ok_and(|statement| statement.is_signature())
            }
        }
    }

    /// Returns the signer of the image, if it is trusted.
    ///
    /// # Errors
    /// The reason why the signature is not valid.
    pub fn verify(&self, image: Image<'_>, trust: Trust<'_>) -> Result<Signer, Unverified> {
        self.check(image, trust).map_err(Unverified)
    }

    fn check(&self, image: Image<'_>, trust: Trust<'_>) -> Result<Signer, String> {
        let signed = self.must_be_of(image)?;
        match (trust, &self.by) {
            (Trust::Keys(keys), Proof::Key) => {
                let mut keys = keys.iter();
                let key = keys.find(|key| key.verifies(signed, &self.signature));
                key.map(|key| Signer::Key(key.clone()))
                    .ok_or_else(|| "it was not made with a key of the policy".to_owned())
            }
            (Trust::Keys(_), Proof::Certificate(_)) => Err(
                "it was made by an identity, not with a key of the policy; use a policy with \
                 that identity"
                    .to_owned(),
            ),
            (Trust::Identity(..), Proof::Key) => Err(
                "it was made with a key and has no certificate; use a policy with that key"
                    .to_owned(),
            ),
            (Trust::Identity(identity, root), Proof::Certificate(certified)) => {
                let noted = self.noted(signed, &certified.certificate);
                let key = certified.key(&noted, identity, root)?;
                match key.verifies(signed, &self.signature) {
                    true => Ok(Signer::of(identity, root)),
                    false => Err("its signature is of other content or by another key".to_owned()),
                }
            }
        }
    }

    /// Returns the signed bytes, if they are about the image.
    fn must_be_of<'a>(&'a self, image: Image<'a>) -> Result<&'a [u8], String> {
        match &self.content {
            Content::Manifest(digest) => {
                if Digest::of(image.manifest) != *image.digest {
                    return Err("the image's manifest was changed".to_owned());
                }
                match digest == image.digest {
                    true => Ok(image.manifest),
                    false => Err(format!("it is a signature of {digest}")),
                }
            }
            Content::Statement { signed, payload } => {
                Statement::read(payload)?.must_be_of(image.digest)?;
                Ok(signed)
            }
        }
    }

    fn noted<'a>(&'a self, signed: &'a [u8], certificate: &'a [u8]) -> Noted<'a> {
        let (kinds, payload) = match &self.content {
            Content::Manifest(_) => (&[Kind::HashedRekord, Kind::HashedRekord2][..], signed),
            Content::Statement { payload, .. } => (
                &[Kind::Dsse, Kind::HashedRekord2, Kind::Dsse2][..],
                &payload[..],
            ),
        };
        Noted {
            kinds,
            signed,
            payload,
            signature: &self.signature,
            certificate,
        }
    }
}
