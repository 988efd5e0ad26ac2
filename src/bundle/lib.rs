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
pub mod statement;
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
pub use signature::{BundleSignature, Signer};
pub use statement::{CreationTime, Revision, Sequence};
pub use threads::cores;
pub use write::grouping::arrange;
pub use write::gzip_analysis::{EncoderCache, analyze_gzip};
pub use write::{PackOptions, Signed, Written, check_folder, write, write_until};

use kubexm_types::{Digest, Message, disk_failure};

/// Why a bundle cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{}", Message::from(self))]
pub enum BundleError {
    /// The file system failed.
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a bundle, is truncated, or was changed.
    Damaged {
        /// The bundle.
        path: String,
        /// What is wrong, where, and what to do.
        reason: Message,
    },
    /// No trusted key signed the bundle.
    Untrusted {
        /// The bundle.
        path: String,
        /// What is wrong and what to do.
        reason: Message,
    },
    /// An incremental bundle and the given base bundles do not contain all blobs.
    Incomplete {
        /// The bundle.
        path: String,
        /// The name of its base.
        base: String,
        /// Number of missing blobs.
        count: usize,
        /// Labels of some of them.
        some: String,
    },
    /// Volumes of a bundle are damaged; one line for each.
    Volumes(Vec<String>),
    /// The folder for the new bundle is not writable.
    Folder {
        /// The folder.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file does not exist.
    NoFile {
        /// The path.
        path: String,
    },
    /// A blob in the cache changed after its download.
    Source {
        /// The file in the cache.
        path: String,
        /// The blob's label.
        label: String,
        /// Digest in the lock.
        expected: Digest,
        /// Digest of the file.
        got: Digest,
    },
    /// The disk is full.
    Full {
        /// The bundle that could not be written.
        path: String,
        /// Size of the uncompressed content in bytes: an upper limit, apart from headers.
        content: u64,
        /// Number of bytes that are free in its folder.
        free: u64,
    },
    /// The user stopped the command.
    Stopped,
    /// The bundle does not contain this item.
    Missing(Message),
}

impl From<&BundleError> for Message {
    fn from(error: &BundleError) -> Self {
        match error {
            BundleError::Io { path, source } => {
                Self::new(format!("{path}: {source}")).or_hint(disk_failure::hint(source))
            }
            BundleError::Damaged { path, reason } | BundleError::Untrusted { path, reason } => {
                reason.clone().within(path)
            }
            BundleError::Incomplete { path, base, count, some } => {
                let more = if *count > 5 { ", …" } else { "" };
                let cause = format!("{count} blobs of its base {base} are missing ({some}{more})");
                Self::new(format!("{path}: this is an incremental bundle; {cause}"))
                    .hint(format!("give the base bundle before it: --bundle BASE --bundle {path}"))
            }
            BundleError::Volumes(damaged) => Self::new(damaged.join("\n")),
            BundleError::Folder { path, source } => {
                Self::new(format!("{path}: cannot write a bundle to this folder: {source}"))
                    .hint("name another file with --out")
            }
            BundleError::NoFile { path } => Self::new(format!("{path}: the bundle does not exist"))
                .hint("give the path of a bundle that `kubexm bundle build` wrote"),
            BundleError::Source { path, label, expected, got } => Self::new(format!(
                "{path}: {label} was changed after it was downloaded\n  expected {expected}\n  got      {got}\nNothing was written."
            ))
            .hint(format!("remove {path} and build again")),
            BundleError::Full { path, content, free } => {
                let (free, content) = (indicatif::HumanBytes(*free), indicatif::HumanBytes(*content));
                Self::new(format!(
                    "{path}: the disk is full: {free} are free, and the bundle needs up to {content}\nNothing was written; downloads \
                     are kept."
                ))
                .hint("free some space, or name another file with --out")
            }
            BundleError::Stopped => Self::new("stopped; nothing was written"),
            BundleError::Missing(item) => Self {
                text: format!("the bundle has no {}", item.text),
                ..item.clone()
            },
        }
    }
}

impl BundleError {
    /// The file system failed at this path.
    pub fn io(path: &Path, source: io::Error) -> Self {
        let path = path.display().to_string();
        Self::Io { path, source }
    }

    /// The file at this path is damaged, or it is not part of a bundle. The reason may contain a hint.
    fn damaged(path: &Path, reason: impl Into<Message>) -> Self {
        Self::Damaged {
            path: path.display().to_string(),
            reason: reason.into(),
        }
    }
}

/// A part of a blob while it is streamed.
#[derive(Debug, Clone, Copy)]
pub struct BlobPart<'a> {
    /// The blob.
    pub digest: Digest,
    /// The next bytes.
    pub bytes: &'a [u8],
    /// Whether these are the blob's last bytes. Its digest has been verified then.
    pub last: bool,
}

/// A reader of the content of a blob that is stored decompressed.
pub type StoredContent = Option<Box<dyn Read + Send>>;

/// Receives the parts of blobs.
pub type PartHandler<'a> = dyn FnMut(BlobPart<'_>) -> io::Result<()> + 'a;

/// A source of blobs by digest: a bundle, or the cache that a bundle is built from.
pub trait Blobs: Send + Sync {
    /// Opens a blob for reading. At its end the reader compares the digest and fails with
    /// [`io::ErrorKind::InvalidData`] if it differs: a caller must not use the bytes before that.
    ///
    /// # Errors
    /// The blob does not exist or cannot be read.
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError>;

    /// Opens a blob for a caller that hashes the bytes and compares the digest itself.
    ///
    /// # Errors
    /// As [`Blobs::open`].
    fn open_for_hashing(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.open(digest)
    }

    /// Opens the decompressed content of a gzip blob. A reader that reaches the end has verified it.
    ///
    /// # Errors
    /// As [`Blobs::open`].
    fn open_content(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        Ok(Box::new(MultiGzDecoder::new(self.open(digest)?)))
    }

    /// Opens the decompressed content of a gzip blob if the source stores exactly this content with
    /// this recipe; else returns `None`. A reader that reaches the end has verified it.
    ///
    /// # Errors
    /// As [`Blobs::open`].
    fn open_stored_content(
        &self,
        _digest: &Digest,
        _opened: &DecompressedGzip,
    ) -> Result<StoredContent, BundleError> {
        Ok(None)
    }

    /// Streams several blobs to `take` in the order that is fastest; parts of different blobs can
    /// alternate.
    ///
    /// # Errors
    /// A blob cannot be read or does not match its digest, or `take` fails.
    fn stream(&self, wanted: &BTreeSet<Digest>, take: &mut PartHandler<'_>) -> io::Result<()> {
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

    /// Returns the location of a blob for messages.
    fn place(&self, digest: &Digest) -> String {
        digest.to_string()
    }
}
