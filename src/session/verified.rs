//! The bundle that was verified last. The next command does not read the same files again only to verify
//! them: each blob is compared with its digest when it is used.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::state_record::StateRecord;
use kubexm_bundle::BundleSet;
use kubexm_types::Digest;

/// The files of a bundle and of its base bundles, as they were when every byte was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VerifiedBundle {
    /// The digest of the lock.
    lock: Digest,
    /// The files, in their order.
    files: Vec<VerifiedFile>,
}

/// A file that changes if anything writes to it or replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VerifiedFile {
    path: PathBuf,
    /// In bytes.
    size: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// Seconds and nanoseconds since 1970 of the last change of the inode, which no program can set.
    changed: (i64, i64),
    device: u64,
    inode: u64,
}

impl StateRecord for VerifiedBundle {
    const FILE: &'static str = "verified-bundle.json";
    const TITLE: &'static str = "the bundle that was verified last";
    const HINT: &'static str = "remove the file; kubexm verifies the bundle again";
}

impl VerifiedBundle {
    /// Returns the bundle with its files as they are now.
    ///
    /// # Errors
    /// A file is gone, or it cannot be read.
    pub fn of(bundle: &BundleSet) -> io::Result<Self> {
        let files = bundle.files().map(|path| {
            let path = std::path::absolute(path)?;
            let metadata = std::fs::metadata(&path)?;
            Ok(VerifiedFile::new(path, &metadata))
        });
        Ok(Self {
            lock: bundle.bundle().lock_digest(),
            files: files.collect::<io::Result<_>>()?,
        })
    }

    /// Returns whether a command with this state directory verified this bundle. A record that cannot be read counts as none.
    pub fn is_recorded(&self, state: &Path) -> bool {
        Self::read(state).ok().flatten().as_ref() == Some(self)
    }
}

impl VerifiedFile {
    fn new(path: PathBuf, metadata: &Metadata) -> Self {
        Self {
            path,
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}
