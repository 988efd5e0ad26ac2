//! A bundle together with its base bundles.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::read::Access;
use crate::{
    Blobs, Bundle, BundleError, DecompressedGzip, EncoderCache, Lock, PartHandler, StoredContent,
};
use kubexm_types::Digest;
use kubexm_types::event::Events;

/// Maximum number of missing blobs that an error names.
const NAMED: usize = 5;

/// A bundle and the base bundles that contain its other blobs. No blob is missing.
#[derive(Debug)]
pub struct BundleSet {
    bundle: Bundle,
    bases: Vec<Bundle>,
}

impl BundleSet {
    /// Opens a bundle, the last of the paths, and its base bundles, the others.
    ///
    /// # Errors
    /// One of them cannot be opened, or a blob is in none of them.
    pub fn open(paths: &[PathBuf], access: &Access) -> Result<Self, BundleError> {
        let open = |path: &PathBuf| Bundle::open_with(path, access);
        let mut bases: Vec<Bundle> = paths.iter().map(open).collect::<Result<_, _>>()?;
        let bundle = bases
            .pop()
            .ok_or_else(|| BundleError::Missing("path: name one".into()))?;
        Self::new(bundle, bases)
    }

    /// Combines a bundle and its base bundles.
    ///
    /// # Errors
    /// A blob of the bundle is in none of them.
    pub fn new(bundle: Bundle, bases: Vec<Bundle>) -> Result<Self, BundleError> {
        let set = Self { bundle, bases };
        let missing: Vec<String> = set
            .lock()
            .blobs()
            .iter()
            .filter(|(digest, _)| set.holder(digest).is_none())
            .map(|(_, blob)| blob.label.clone())
            .collect();
        match (&missing[..], set.bundle.base()) {
            ([], _) => Ok(set),
            (_, base) => Err(BundleError::Incomplete {
                path: set.bundle.path().display().to_string(),
                base: base.map_or_else(String::new, |base| base.name.clone()),
                count: missing.len(),
                some: missing[..missing.len().min(NAMED)].join(", "),
            }),
        }
    }

    /// Returns the bundle without its bases.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Returns the lock of the bundle. It also lists the blobs of the bases.
    pub fn lock(&self) -> &Lock {
        self.bundle.lock()
    }

    /// Returns the paths of all files: of the bundle, then of its bases.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let bundles = std::iter::once(&self.bundle).chain(&self.bases);
        bundles.flat_map(|bundle| bundle.volumes().files())
    }

    /// Verifies the bundle as [`Bundle::verify`] does, and the blobs of the base bundles that it needs.
    ///
    /// # Errors
    /// As [`Bundle::verify`].
    pub fn verify(&self, threads: usize, events: &Events) -> Result<(), BundleError> {
        self.bundle.verify(threads, events)?;
        for (base, wanted) in self.by_holder(&self.absent()).into_iter().skip(1) {
            if !wanted.is_empty() {
                base.verify_blobs(Some(&wanted), threads, events)?;
            }
        }
        Ok(())
    }

    fn absent(&self) -> BTreeSet<Digest> {
        let base = self.bundle.base().map(|base| &base.blobs);
        base.cloned().unwrap_or_default()
    }

    /// Returns the bundle that contains a blob: the bundle itself, or the first of the bases.
    fn holder(&self, digest: &Digest) -> Option<&Bundle> {
        std::iter::once(&self.bundle)
            .chain(&self.bases)
            .find(|bundle| bundle.carries(digest))
    }

    /// Divides blobs by the bundle that contains them; the bundle itself is first.
    fn by_holder(&self, wanted: &BTreeSet<Digest>) -> Vec<(&Bundle, BTreeSet<Digest>)> {
        let mut left = wanted.clone();
        let mut shares = Vec::new();
        for bundle in std::iter::once(&self.bundle).chain(&self.bases) {
            let (has, rest) = left.into_iter().partition(|digest| bundle.carries(digest));
            shares.push((bundle, has));
            left = rest;
        }
        shares
    }

    fn holder_or_missing(&self, digest: &Digest) -> Result<&Bundle, BundleError> {
        self.holder(digest)
            .ok_or_else(|| BundleError::Missing(format!("blob {digest}").into()))
    }
}

impl Blobs for BundleSet {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.holder_or_missing(digest)?.open(digest)
    }

    fn open_content(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.holder_or_missing(digest)?.open_content(digest)
    }

    fn open_content_for_hashing(
        &self,
        digest: &Digest,
    ) -> Result<Box<dyn Read + Send>, BundleError> {
        self.holder_or_missing(digest)?
            .open_content_for_hashing(digest)
    }

    fn open_stored_content(
        &self,
        digest: &Digest,
        opened: &DecompressedGzip,
    ) -> Result<StoredContent, BundleError> {
        self.holder_or_missing(digest)?
            .open_stored_content(digest, opened)
    }

    fn stream(&self, wanted: &BTreeSet<Digest>, take: &mut PartHandler<'_>) -> io::Result<()> {
        for (bundle, share) in self.by_holder(wanted) {
            if !share.is_empty() {
                bundle.stream(&share, take)?;
            }
        }
        Ok(())
    }

    fn place(&self, digest: &Digest) -> String {
        let holder = self.holder(digest).unwrap_or(&self.bundle);
        format!("{} ({digest})", holder.path().display())
    }
}

/// The bundles contain the results of the gzip analysis of their blobs.
impl EncoderCache for BundleSet {
    fn recall(&self, blob: &Digest) -> Option<Option<DecompressedGzip>> {
        Some(self.holder(blob)?.opened(blob).cloned())
    }

    fn keep(&self, _blob: &Digest, _opened: Option<&DecompressedGzip>) {}
}
