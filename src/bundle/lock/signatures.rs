//! Signatures of publishers in the lock.

use serde::{Deserialize, Serialize};

use crate::lock::descriptor::Descriptor;
use kubexm_sigstore::{Part, Signer};
use kubexm_types::signature_policy::NamePrefix;

/// The signature of an image, as in the publisher's registry: with the tag
/// [`crate::lock::LockedImage::signature_tag`], or as a referrer of the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedSignature {
    /// The prefix of the policy that required the signature.
    pub policy: NamePrefix,
    /// The signer.
    pub by: Signer,
    /// The manifest with the signatures, as published.
    pub manifest: Descriptor,
    /// The blobs of the manifest: its configuration, and the signed payloads or Sigstore bundles.
    pub blobs: Vec<Descriptor>,
    /// Set for a referrer: an index that contains only this referrer. Registries without the referrers API
    /// need it with the tag [`crate::lock::LockedImage::referrers_tag`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referrers: Option<Descriptor>,
}

impl From<&Part> for Descriptor {
    fn from(part: &Part) -> Self {
        Self {
            media_type: part.media_type.clone(),
            digest: part.digest,
            size: part.size,
        }
    }
}

impl LockedSignature {
    /// Returns all blobs of the signature.
    pub fn everything(&self) -> impl Iterator<Item = &Descriptor> {
        std::iter::once(&self.manifest)
            .chain(&self.blobs)
            .chain(&self.referrers)
    }
}

/// The signature of a file, which its publisher serves as `<address>.sig`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileSignature {
    /// The prefix of the policy that required the signature.
    pub policy: NamePrefix,
    /// The signer.
    pub by: Signer,
    /// The signature as published.
    pub signature: Descriptor,
    /// The signer's certificate, `<address>.cert`; not set for a signature by a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Descriptor>,
}

impl FileSignature {
    /// Returns all blobs of the signature, with the suffixes of their names.
    pub fn everything(&self) -> impl Iterator<Item = (&'static str, &Descriptor)> {
        let certificate = self.certificate.iter().map(|blob| (".cert", blob));
        std::iter::once((".sig", &self.signature)).chain(certificate)
    }
}
