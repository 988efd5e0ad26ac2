//! What the lock says of publishers' signatures.

use serde::{Deserialize, Serialize};

use crate::lock::{Descriptor, LockedFile, LockedImage};
use kubexm_sigstore::{Part, Signer};
use kubexm_types::signature_policy::NamePrefix;

/// A signature as its publisher's registry has it: under the tag [`LockedImage::signature_tag`], or as a
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
    /// [`LockedImage::referrers_tag`] in registries that list none themselves.
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

impl LockedImage {
    /// The tag under which cosign looks for signatures of this image
    /// (<https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md>).
    pub fn signature_tag(&self) -> String {
        format!("sha256-{}.sig", self.manifest.digest.hex())
    }

    /// The tag under which a list of referrers of this image stands in registries that make none
    /// themselves
    /// (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#referrers-tag-schema>).
    pub fn referrers_tag(&self) -> String {
        format!("sha256-{}", self.manifest.digest.hex())
    }

    /// Its signature, and the name under which that stands in a registry: referrers have none.
    pub fn named_signature(&self) -> Option<(Option<String>, &LockedSignature)> {
        let signature = self.signature.as_ref()?;
        let (registry, repository) = (self.name.registry(), self.name.repository());
        let name = format!("{registry}/{repository}:{}", self.signature_tag());
        Some((signature.referrers.is_none().then_some(name), signature))
    }

    /// The blobs of its signature; none where there is none.
    pub fn signature_blobs(&self) -> impl Iterator<Item = &Descriptor> {
        self.signature.iter().flat_map(LockedSignature::everything)
    }
}

impl LockedFile {
    /// The blobs of its signature, with how their names end; none where there is none.
    pub fn signature_blobs(&self) -> impl Iterator<Item = (&'static str, &Descriptor)> {
        self.signature.iter().flat_map(FileSignature::everything)
    }
}
