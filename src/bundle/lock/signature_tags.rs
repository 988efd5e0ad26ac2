//! The tags and blobs of the signatures of an image or a file.

use crate::lock::descriptor::Descriptor;
use crate::lock::signatures::{FileSignature, LockedSignature};
use crate::lock::{LockedFile, LockedImage};

impl LockedImage {
    /// Returns the tag where cosign finds the signatures of the image
    /// (<https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md>).
    pub fn signature_tag(&self) -> String {
        format!("sha256-{}.sig", self.manifest.digest.hex())
    }

    /// Returns the tag of the image's referrers in registries without the referrers API
    /// (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#referrers-tag-schema>).
    pub fn referrers_tag(&self) -> String {
        format!("sha256-{}", self.manifest.digest.hex())
    }

    /// Returns the signature and its name in a registry. Referrers do not have a name.
    pub fn named_signature(&self) -> Option<(Option<String>, &LockedSignature)> {
        let signature = self.signature.as_ref()?;
        let (registry, repository) = (self.name.registry(), self.name.repository());
        let name = format!("{registry}/{repository}:{}", self.signature_tag());
        Some((signature.referrers.is_none().then_some(name), signature))
    }

    /// Returns the blobs of the signature; none without a signature.
    pub fn signature_blobs(&self) -> impl Iterator<Item = &Descriptor> {
        self.signature.iter().flat_map(LockedSignature::everything)
    }
}

impl LockedFile {
    /// Returns the blobs of the signature, with the suffixes of their names; none without a signature.
    pub fn signature_blobs(&self) -> impl Iterator<Item = (&'static str, &Descriptor)> {
        self.signature.iter().flat_map(FileSignature::everything)
    }
}
