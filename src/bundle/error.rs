//! Why a bundle cannot be written or read.

use std::io;
use std::path::Path;

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
    pub(crate) fn damaged(path: &Path, reason: impl Into<Message>) -> Self {
        Self::Damaged {
            path: path.display().to_string(),
            reason: reason.into(),
        }
    }
}

/// Returns the error for damaged content.
pub(crate) fn damaged(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged: {reason}"))
}
