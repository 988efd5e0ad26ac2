//! The bundle format: write, read, verify, sign, split and compare bundles. Knows no network.
//!
//! `FORMAT.md` specifies the file: a tar compressed with zstd that starts with a header (OCI image layout,
//! index, signature, lock, placement document) and continues with groups of blobs. Each group starts a zstd
//! frame and a seek table ends the file, so that a reader decompresses one blob without the rest. A bundle
//! that keeps its gzip layers is an OCI image layout that other tools unpack.
//!
//! A bundle can be split into volumes ([`format::volumes`]), contain only the blobs that a base bundle does
//! not have ([`BundleSet`]), and be signed ([`signature`]). The signature covers the content, whatever the
//! packing.

pub mod archive;
mod channel_reader;
mod codec;
pub mod export;
pub mod format;
pub mod inventory;
mod level;
pub mod lock;
pub mod oci_artifact;
pub mod read;
pub mod signature;
mod threads;
pub mod write;

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
pub use format::placement::{DecompressedGzip, Placement};
pub use inventory::Inventory;
pub use level::Level;
pub use lock::Lock;
pub use lock::blob_index::{BlobIndex, BlobInfo};
pub use read::bundle_set::BundleSet;
pub use read::contents::ContentVisitor;
pub use read::{Access, Bundle};
pub use signature::Signer;
pub use threads::cores;
pub use write::grouping::arrange;
pub use write::gzip_analysis::{EncoderCache, openings};
pub use write::{PackOptions, Signed, Written, check_folder, write, write_until};

use kubexm_types::Digest;

/// Why a bundle cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file system failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is no bundle of ours, is cut off, or was changed.
    #[error("{path}: {reason}")]
    Damaged {
        /// The bundle.
        path: String,
        /// What is wrong, where, and what to do.
        reason: String,
    },
    /// Nobody who is trusted signed the bundle.
    #[error("{path}: {reason}")]
    Untrusted {
        /// The bundle.
        path: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The bundle leans on others, and together they lack something.
    #[error(
        "{path}: carries only what was new; {count} blobs are missing that {base} has ({some}{})\nGive the bundle that it was built on as well, before it: --bundle BASE --bundle {path}",
        if *count > 5 { ", …" } else { "" }
    )]
    Incomplete {
        /// The bundle.
        path: String,
        /// What it leans on.
        base: String,
        /// Blobs that are missing.
        count: usize,
        /// What a person calls some of them.
        some: String,
    },
    /// Volumes of a bundle are damaged; a line for each.
    #[error("{}", .0.join("\n"))]
    Volumes(Vec<String>),
    /// The folder of a bundle that shall be written takes no files.
    #[error("{path}: no bundle can be written there: {source}\nName another place with --out.")]
    Folder {
        /// The folder.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// There is no such file.
    #[error(
        "{path}: there is no such file; give the path of a bundle that `kubexm bundle build` wrote"
    )]
    NoFile {
        /// The path.
        path: String,
    },
    /// What a bundle shall be packed from is damaged.
    #[error(
        "{path}: {label} was changed after it was downloaded\n  expected {expected}\n  got      {got}\nNothing was written. Remove {path} and build again."
    )]
    Source {
        /// The file in the cache.
        path: String,
        /// What the blob is.
        label: String,
        /// Digest by the lock.
        expected: Digest,
        /// Digest of what was read.
        got: Digest,
    },
    /// The disk is full.
    #[error(
        "{path}: the disk is full: it has {} free, and the bundle takes up to {}\nNothing was written. Free some, or name another place with --out; what was downloaded is kept.",
        indicatif::HumanBytes(*free), indicatif::HumanBytes(*content)
    )]
    Full {
        /// The bundle that could not be written.
        path: String,
        /// Bytes that it has unpacked: it cannot become much larger.
        content: u64,
        /// Bytes that are free in its folder.
        free: u64,
    },
    /// Somebody wanted it to stop.
    #[error("stopped; nothing was written")]
    Stopped,
    /// The bundle lacks something.
    #[error("the bundle has no {0}")]
    Missing(String),
}

impl BundleError {
    /// The file system failed at this path.
    pub fn io(path: &Path, source: io::Error) -> Self {
        let path = path.display().to_string();
        Self::Io { path, source }
    }
}

/// A part of a blob on its way.
#[derive(Debug, Clone, Copy)]
pub struct BlobPart<'a> {
    /// The blob.
    pub digest: Digest,
    /// What follows.
    pub bytes: &'a [u8],
    /// Whether it is the blob's end: it has been held against the digest then.
    pub last: bool,
}

/// The content of a blob that is held opened up.
pub type Held = Option<Box<dyn Read + Send>>;

/// Takes the parts of blobs.
pub type Take<'a> = dyn FnMut(BlobPart<'_>) -> io::Result<()> + 'a;

/// Somewhere blobs can be had by digest: a bundle, or the cache that a bundle is packed from.
pub trait Blobs: Send + Sync {
    /// Opens a blob for reading from its start. The reader checks the digest as it goes and fails
    /// at the end with [`io::ErrorKind::InvalidData`] where it does not match: until then nothing
    /// that was read may be used.
    ///
    /// # Errors
    /// There is no such blob, or it cannot be read.
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError>;

    /// Opens what is inside a gzip blob. Whoever reads to the end knows that it is right.
    ///
    /// # Errors
    /// As [`Blobs::open`].
    fn open_inside(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        Ok(Box::new(MultiGzDecoder::new(self.open(digest)?)))
    }

    /// Opens what is inside a gzip blob, where it lies there just so: with this content, to be made
    /// again in this way. Whoever reads to the end knows that it is that content.
    ///
    /// # Errors
    /// As [`Blobs::open`].
    fn open_held(&self, _digest: &Digest, _opened: &DecompressedGzip) -> Result<Held, BundleError> {
        Ok(None)
    }

    /// Hands many blobs to `take`, in whatever order is the fastest; several may be on their way at
    /// once.
    ///
    /// # Errors
    /// One cannot be read or is not what its digest says, or `take` fails.
    fn stream(&self, wanted: &BTreeSet<Digest>, take: &mut Take<'_>) -> io::Result<()> {
        for digest in wanted {
            let mut blob = self.open(digest).map_err(io::Error::other)?;
            let mut buffer = vec![0; 1 << 17];
            loop {
                let count = blob.read(&mut buffer)?;
                take(BlobPart {
                    digest: *digest,
                    bytes: &buffer[..count],
                    last: count == 0,
                })?;
                if count == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Where a person finds a blob: names it in messages.
    fn place(&self, digest: &Digest) -> String {
        digest.to_string()
    }
}
