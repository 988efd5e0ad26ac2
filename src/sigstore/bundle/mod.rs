//! A signature with all that is needed to hold it against its signer, in one document
//! (<https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto>), which cosign
//! attaches to images since its version 3
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

/// An image that a signature is held against.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// The digest of its top manifest.
    pub digest: &'a Digest,
    /// The top manifest.
    pub manifest: &'a [u8],
}

/// A bundle that was read. Nothing in it is believed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    by: Proof,
    content: Content,
    signature: Vec<u8>,
}

/// What its signer shows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Proof {
    /// That there is a key somewhere.
    Key,
    /// A certificate, and what others say of its use.
    Certificate(Certified),
}

/// What is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// An image's manifest as it is.
    Manifest(Digest),
    /// A statement about an image, in the words that are signed and in its own.
    Statement { signed: Vec<u8>, payload: Vec<u8> },
}

/// Reads a bundle.
///
/// # Errors
/// It is none; as the rest of a sentence about it.
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
    /// Whether it says that somebody signed an image, and not something else about it: what is in it, or
    /// how it was built.
    pub fn is_signature(&self) -> bool {
        match &self.content {
            Content::Manifest(_) => true,
            Content::Statement { payload, .. } => {
                Statement::read(payload).is_ok_and(|statement| statement.is_signature())
            }
        }
    }

    /// Who signed the image, where it is somebody who is trusted.
    ///
    /// # Errors
    /// Why it does not hold.
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
                    .ok_or_else(|| "no key of the policy made it".to_owned())
            }
            (Trust::Keys(_), Proof::Certificate(_)) => Err(
                "it was made by an identity, not with a key of the policy; a policy with that \
                 identity would hold it"
                    .to_owned(),
            ),
            (Trust::Identity(..), Proof::Key) => Err(
                "it was made with a key and names no identity; a policy with that key would hold it"
                    .to_owned(),
            ),
            (Trust::Identity(identity, root), Proof::Certificate(certified)) => {
                let noted = self.noted(signed, &certified.certificate);
                let key = certified.key(&noted, identity, root)?;
                match key.verifies(signed, &self.signature) {
                    true => Ok(Signer::of(identity, root)),
                    false => {
                        Err("its signature is of something else, or by another key".to_owned())
                    }
                }
            }
        }
    }

    /// What is signed, where that is about the image.
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
