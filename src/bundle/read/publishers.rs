//! Verifies the signatures of publishers in a bundle. The signers in the lock are only claims.

use std::collections::BTreeMap;
use std::io::Read;

use crate::lock::{Descriptor, FileSignature, Lock, LockedFile, LockedImage, LockedSignature};
use crate::{Blobs, Bundle, BundleError, oci_artifact};
use kubexm_sigstore::bundle as sigstore_bundle;
use kubexm_sigstore::document;
use kubexm_sigstore::document::Part;
use kubexm_sigstore::{
    Artifact, Signer, Trust, TrustedRoot, Unverified, file, referrer, verify, verify_any,
};
use kubexm_types::signature_policy::Identity;
use kubexm_types::{Digest, Message};

/// The result of the verification of signatures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Publishers {
    /// Number of verified items by signer.
    pub verified: BTreeMap<String, Count>,
    /// Items that are signed under a trusted root that was not given; not verified.
    pub under_other_roots: Vec<String>,
    /// Number of items whose signatures only a base bundle contains.
    pub elsewhere: usize,
    /// One line for each invalid signature.
    bad: Vec<String>,
}

/// Number of images and files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Images.
    pub images: usize,
    /// Files.
    pub files: usize,
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self { images, files: 0 } => write!(f, "{images} images"),
            Self { images: 0, files } => write!(f, "{files} files"),
            Self { images, files } => write!(f, "{images} images and {files} files"),
        }
    }
}

/// Returns the number of items by signer, as the lock claims.
pub fn claimed(lock: &Lock) -> BTreeMap<String, Count> {
    let mut signers: BTreeMap<String, Count> = BTreeMap::new();
    for signature in lock.images.iter().filter_map(|i| i.signature.as_ref()) {
        signers.entry(signature.by.to_string()).or_default().images += 1;
    }
    for signature in lock.files.iter().filter_map(|f| f.signature.as_ref()) {
        signers.entry(signature.by.to_string()).or_default().files += 1;
    }
    signers
}

impl Publishers {
    fn count(&mut self, name: &str, verified: Result<Signer, String>, one: Count) {
        match verified {
            Ok(signer) => {
                let count = self.verified.entry(signer.to_string()).or_default();
                count.images += one.images;
                count.files += one.files;
            }
            Err(reason) => self.bad.push(format!("{name}: {reason}")),
        }
    }
}

/// The trusted roots.
struct Roots<'a> {
    public: TrustedRoot,
    private: &'a [TrustedRoot],
}

impl Roots<'_> {
    /// Returns the root under which a signer claims to have signed.
    fn root_of(&self, signer: &Signer) -> Option<&TrustedRoot> {
        let wanted = match signer {
            Signer::Identity { trusted_root, .. } => *trusted_root,
            Signer::Key(_) => None,
        };
        let mut known = std::iter::once(&self.public).chain(self.private);
        known.find(|root| root.own_digest() == wanted)
    }
}

impl Bundle {
    /// Verifies the publishers' signatures of images and files under the public Sigstore instance and under
    /// `roots`. The blobs must be verified before.
    ///
    /// # Errors
    /// A signature is invalid; the error lists all of them.
    pub fn verify_publishers(&self, roots: &[TrustedRoot]) -> Result<Publishers, BundleError> {
        let damaged = |reason: String| BundleError::damaged(self.path(), reason);
        let roots = Roots {
            public: TrustedRoot::public_instance().map_err(&damaged)?,
            private: roots,
        };
        let mut publishers = Publishers::default();
        for image in &self.lock().images {
            if let Some(signature) = &image.signature {
                let blobs = signature.everything().chain([&image.manifest]);
                let blobs = blobs.map(|blob| blob.digest);
                let name = image.name.to_string();
                if let Some(root) = self.root(&roots, &mut publishers, &name, &signature.by, blobs)
                {
                    let one = Count {
                        images: 1,
                        files: 0,
                    };
                    publishers.count(&name, self.verify_image(image, signature, root), one);
                }
            }
        }
        for file in &self.lock().files {
            if let Some(signature) = &file.signature {
                let blobs = signature.everything().map(|(_, blob)| blob.digest);
                let blobs = blobs.chain([file.digest]);
                let name = format!("{} {} {}", file.component, file.version, file.arch);
                if let Some(root) = self.root(&roots, &mut publishers, &name, &signature.by, blobs)
                {
                    let one = Count {
                        images: 0,
                        files: 1,
                    };
                    publishers.count(&name, self.verify_file(file, signature, root), one);
                }
            }
        }
        if publishers.bad.is_empty() {
            Ok(publishers)
        } else {
            Err(BundleError::damaged(
                self.path(),
                Message::new(format!(
                    "signatures of publishers are not valid:\n  {}",
                    publishers.bad.join("\n  ")
                ))
                .hint("do not use this bundle"),
            ))
        }
    }

    /// Returns the trusted root for a signature. Returns `None` and records the reason if the signature
    /// cannot be verified with this bundle and these roots.
    fn root<'a>(
        &self,
        roots: &'a Roots<'_>,
        publishers: &mut Publishers,
        name: &str,
        signer: &Signer,
        mut blobs: impl Iterator<Item = Digest>,
    ) -> Option<&'a TrustedRoot> {
        if !blobs.all(|digest| self.carries(&digest)) {
            publishers.elsewhere += 1;
            return None;
        }
        let root = roots.root_of(signer);
        if root.is_none() {
            publishers.under_other_roots.push(name.to_owned());
        }
        root
    }

    fn verify_image(
        &self,
        image: &LockedImage,
        signature: &LockedSignature,
        root: &TrustedRoot,
    ) -> Result<Signer, String> {
        if let Some(list) = &signature.referrers {
            return self.verify_referrer(image, signature, list, root);
        }
        let manifest = document::read(&self.small(&signature.manifest)?)?;
        let payload = |part: &Part| {
            let mut blobs = signature.blobs.iter();
            let blob = blobs.find(|blob| blob.digest == part.digest);
            self.small(blob.ok_or("the lock does not name the signed payload")?)
        };
        let top = self.small(&image.manifest)?;
        let artifact = Artifact::Image {
            digest: &image.manifest.digest,
            manifest: &top,
        };
        by_claimed(&signature.by, root, |trust| {
            verify_any(manifest.bundles(&payload), artifact, trust)
        })
    }

    fn verify_referrer(
        &self,
        image: &LockedImage,
        signature: &LockedSignature,
        list: &Descriptor,
        root: &TrustedRoot,
    ) -> Result<Signer, String> {
        let manifest = self.small(&signature.manifest)?;
        if self.small(list)? != referrer::list_of(&manifest) {
            return Err("the list of referrers does not match the signature".to_owned());
        }
        let referrer = referrer::read(&manifest)?.ok_or("the referrer is not a Sigstore bundle")?;
        if referrer.subject != image.manifest.digest {
            return Err(format!("the signature is of {}", referrer.subject));
        }
        let mut blobs = signature.blobs.iter();
        let blob = blobs.find(|blob| blob.digest == referrer.bundle.digest);
        let blob = blob.ok_or("the lock does not name the Sigstore bundle")?;
        let bundle = sigstore_bundle::read(&self.small(blob)?)
            .map_err(|reason| format!("the signature {reason}"))?;
        let top = self.small(&image.manifest)?;
        let artifact = Artifact::Image {
            digest: &image.manifest.digest,
            manifest: &top,
        };
        by_claimed(&signature.by, root, |trust| {
            verify(&bundle, artifact, trust)
        })
    }

    fn verify_file(
        &self,
        file: &LockedFile,
        signature: &FileSignature,
        root: &TrustedRoot,
    ) -> Result<Signer, String> {
        let certificate = signature.certificate.as_ref();
        let certificate = certificate.map(|blob| self.small(blob)).transpose()?;
        let text = self.small(&signature.signature)?;
        let mut content = Vec::new();
        let mut reader = self.open(&file.digest).map_err(|error| error.to_string())?;
        reader
            .read_to_end(&mut content)
            .map_err(|error| error.to_string())?;
        let bundle = file::bundle(&text, certificate.as_deref())?;
        by_claimed(&signature.by, root, |trust| {
            verify(&bundle, Artifact::File(&content), trust)
        })
    }

    fn small(&self, blob: &Descriptor) -> Result<Vec<u8>, String> {
        oci_artifact::read_small(self, blob).map_err(|error| error.to_string())
    }
}

/// Verifies a signature by the signer that the lock claims.
fn by_claimed(
    by: &Signer,
    root: &TrustedRoot,
    verify: impl FnOnce(Trust<'_>) -> Result<Signer, Unverified>,
) -> Result<Signer, String> {
    let verified = match by {
        Signer::Key(key) => verify(Trust::Keys(std::slice::from_ref(key))),
        Signer::Identity {
            subject, issuer, ..
        } => {
            let identity = Identity::new(subject, issuer);
            verify(Trust::Identity(&identity, root))
        }
    };
    verified.map_err(|error| error.cause().to_owned())
}
