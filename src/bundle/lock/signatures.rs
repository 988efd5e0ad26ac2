//! What the lock says of publishers' signatures.

use serde::{Deserialize, Serialize};

use crate::lock::descriptor::Descriptor;
use kubexm_sigstore::{Part, Signer};
use kubexm_types::signature_policy::NamePrefix;

/// A signature as its publisher's registry has it: under the tag [`crate::lock::LockedImage::signature_tag`], or as a
/// referrer of the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedSignature {
    /// The prefix of the policy that asked for it.
    pub policy: NamePrefix,
    /// Who signed.
    pub by: Signer,
    /// The manifest that carries the signatures, byte for byte as published.
    pub manifest: Descriptor,
    /// What it names: a configuration, and what is signed.
    pub blobs: Vec<Descriptor>,
    /// Where it is a referrer: the list of just this one, which stands under the tag
    /// [`crate::lock::LockedImage::referrers_tag`] in registries that list none themselves.
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
    /// Everything that there is of it.
    pub fn everything(&self) -> impl Iterator<Item = &Descriptor> {
        std::iter::once(&self.manifest)
            .chain(&self.blobs)
            .chain(&self.referrers)
    }
}

/// A signature that lies beside a file, as `<address>.sig`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileSignature {
    /// The prefix of the policy that asked for it.
    pub policy: NamePrefix,
    /// Who signed.
    pub by: Signer,
    /// The signature as it is published.
    pub signature: Descriptor,
    /// The signer's certificate, `<address>.cert`, where it was an identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Descriptor>,
}

impl FileSignature {
    /// What there is of it, with how its names end.
    pub fn everything(&self) -> impl Iterator<Item = (&'static str, &Descriptor)> {
        let certificate = self.certificate.iter().map(|blob| (".cert", blob));
        std::iter::once((".sig", &self.signature)).chain(certificate)
    }
}
