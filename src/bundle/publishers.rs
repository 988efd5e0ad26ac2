//! What publishers signed of a bundle's images, verified anew: what the lock says of it is no more than
//! a claim.

use std::collections::BTreeMap;

use super::lock::{Descriptor, LockedImage, LockedSignature};
use super::{Bundle, BundleError, transport};
use crate::sigstore::document::{self, Part};
use crate::sigstore::{self, Signer, Trust, TrustedRoot};
use crate::spec::signature_policy::Identity;

/// What became of the signatures in a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Publishers {
    /// How many images somebody has signed for sure.
    pub verified: BTreeMap<String, usize>,
    /// Images that are signed under roots that are not at hand: nothing is known of these.
    pub under_other_roots: Vec<String>,
    /// Images whose signatures lie in the bundle that this one leans on.
    pub elsewhere: usize,
}

impl Bundle {
    /// Holds the images against their publishers' signatures, by the roots in this program and by
    /// `roots`. The blobs must have been verified.
    ///
    /// # Errors
    /// Every image whose signature does not hold.
    pub fn verify_publishers(&self, roots: &[TrustedRoot]) -> Result<Publishers, BundleError> {
        let damaged = |reason: String| BundleError::Damaged {
            path: self.path().display().to_string(),
            reason,
        };
        let public = TrustedRoot::public_instance().map_err(&damaged)?;
        let mut publishers = Publishers::default();
        let mut bad = Vec::new();
        for image in &self.lock().images {
            let Some(signature) = &image.signature else {
                continue;
            };
            if !signature
                .everything()
                .all(|blob| self.carries(&blob.digest))
            {
                publishers.elsewhere += 1;
                continue;
            }
            let wanted = match &signature.by {
                Signer::Identity { trusted_root, .. } => *trusted_root,
                Signer::Key(_) => None,
            };
            let mut known = std::iter::once(&public).chain(roots);
            let Some(root) = known.find(|root| root.own_digest() == wanted) else {
                publishers.under_other_roots.push(image.name.to_string());
                continue;
            };
            match self.verify_publisher(image, signature, root) {
                Ok(signer) => *publishers.verified.entry(signer.to_string()).or_default() += 1,
                Err(reason) => bad.push(format!("{}: {reason}", image.name)),
            }
        }
        match bad.is_empty() {
            true => Ok(publishers),
            false => Err(damaged(format!(
                "images are not what their publishers signed; do not use it\n  {}",
                bad.join("\n  ")
            ))),
        }
    }

    fn verify_publisher(
        &self,
        image: &LockedImage,
        signature: &LockedSignature,
        root: &TrustedRoot,
    ) -> Result<Signer, String> {
        let read = |blob: &Descriptor| {
            transport::read_small(self, blob).map_err(|error| error.to_string())
        };
        let manifest = document::read(&read(&signature.manifest)?)?;
        let payload = |part: &Part| {
            let mut blobs = signature.blobs.iter();
            let blob = blobs.find(|blob| blob.digest == part.digest);
            read(blob.ok_or("its lock does not name what is signed")?)
        };
        let image = &image.manifest.digest;
        let verified = match &signature.by {
            Signer::Key(key) => {
                let keys = std::slice::from_ref(key);
                sigstore::verify(&manifest, &payload, image, Trust::Keys(keys))
            }
            Signer::Identity {
                subject, issuer, ..
            } => {
                let identity = Identity {
                    identity: subject.clone(),
                    issuer: issuer.clone(),
                };
                sigstore::verify(&manifest, &payload, image, Trust::Identity(&identity, root))
            }
        };
        verified.map_err(|error| error.to_string())
    }
}
