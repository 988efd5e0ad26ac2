//! A bundle with what it leans on: a difference and the bundles that have the rest.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::PathBuf;

use crate::read::Access;
use crate::{Blobs, Bundle, BundleError, DecompressedGzip, EncoderCache, Held, Lock, Take};
use kubexm_types::Digest;
use kubexm_types::event::Events;

/// Blobs that a message names at most.
const NAMED: usize = 5;

/// A bundle of which no blob is missing.
#[derive(Debug)]
pub struct BundleSet {
    bundle: Bundle,
    bases: Vec<Bundle>,
}

impl BundleSet {
    /// Opens bundles: the last one is meant, the others have what it leans on.
    ///
    /// # Errors
    /// One cannot be opened, or together they lack something.
    pub fn open(paths: &[PathBuf], access: &Access) -> Result<Self, BundleError> {
        let open = |path: &PathBuf| Bundle::open_with(path, access);
        let mut bases: Vec<Bundle> = paths.iter().map(open).collect::<Result<_, _>>()?;
        let bundle = bases
            .pop()
            .ok_or_else(|| BundleError::Missing("path: name one".to_owned()))?;
        Self::of(bundle, bases)
    }

    /// A bundle and what it leans on.
    ///
    /// # Errors
    /// Together they lack something.
    pub fn of(bundle: Bundle, bases: Vec<Bundle>) -> Result<Self, BundleError> {
        let whole = Self { bundle, bases };
        let lacking: Vec<String> = whole
            .lock()
            .blobs()
            .iter()
            .filter(|(digest, _)| whole.holder(digest).is_none())
            .map(|(_, blob)| blob.label.clone())
            .collect();
        match (&lacking[..], whole.bundle.base()) {
            ([], _) => Ok(whole),
            (_, base) => Err(BundleError::Incomplete {
                path: whole.bundle.path().display().to_string(),
                base: base.map_or_else(String::new, |base| base.name.clone()),
                count: lacking.len(),
                some: lacking[..lacking.len().min(NAMED)].join(", "),
            }),
        }
    }

    /// The bundle that is meant.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// What is in it, what it leans on included.
    pub fn lock(&self) -> &Lock {
        self.bundle.lock()
    }

    /// Compares all digests, as [`Bundle::verify`] does; of what it leans on, just the blobs in
    /// question.
    ///
    /// # Errors
    /// As there.
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

    /// Who has a blob: the bundle itself, or the first of the others.
    fn holder(&self, digest: &Digest) -> Option<&Bundle> {
        std::iter::once(&self.bundle)
            .chain(&self.bases)
            .find(|bundle| bundle.carries(digest))
    }

    /// What is to be had from whom; the bundle itself stands first.
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
            .ok_or_else(|| BundleError::Missing(format!("blob {digest}")))
    }
}

impl Blobs for BundleSet {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.holder_or_missing(digest)?.open(digest)
    }

    fn open_inside(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.holder_or_missing(digest)?.open_inside(digest)
    }

    fn open_held(&self, digest: &Digest, opened: &DecompressedGzip) -> Result<Held, BundleError> {
        self.holder_or_missing(digest)?.open_held(digest, opened)
    }

    fn stream(&self, wanted: &BTreeSet<Digest>, take: &mut Take<'_>) -> io::Result<()> {
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

/// What is held opened up once needs no second try.
impl EncoderCache for BundleSet {
    fn recall(&self, blob: &Digest) -> Option<Option<DecompressedGzip>> {
        Some(self.holder(blob)?.opened(blob).cloned())
    }

    fn keep(&self, _blob: &Digest, _opened: Option<&DecompressedGzip>) {}
}
