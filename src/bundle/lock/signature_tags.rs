//! The tags and blobs of the signatures of an image or a file.

use crate::lock::descriptor::Descriptor;
use crate::lock::signatures::{FileSignature, LockedSignature};
use crate::lock::{LockedFile, LockedImage};

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
