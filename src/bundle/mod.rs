//! The bundle: one file that crosses the gap. Knows no network.
//!
//! A tar in zstd, in it an OCI image layout whose index and lock stand first. Every blob begins a
//! zstd frame of its own and a seek table ends the file, so that any tool can unpack it whole and
//! kubexm can take one blob out without reading the rest.

pub mod archive;
pub mod difference;
pub mod extract;
mod frames;
mod head;
mod layout;
pub mod lock;
mod plausible;
mod read;
mod write;

pub use lock::Lock;
pub use read::Bundle;
pub use write::{PackOptions, Written, check_folder, write, write_until};

use crate::spec::Digest;

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

/// Somewhere blobs can be had by digest: a bundle, or the cache that a bundle is packed from.
pub trait Blobs: Send + Sync {
    /// Opens a blob for reading from its start. The reader checks the digest as it goes and fails
    /// at the end with [`std::io::ErrorKind::InvalidData`] where it does not match: until then
    /// nothing that was read may be used.
    fn open(&self, digest: &Digest) -> Result<Box<dyn std::io::Read + Send>, BundleError>;

    /// Where a person finds a blob: names it in messages.
    fn place(&self, digest: &Digest) -> String {
        digest.to_string()
    }
}
