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
    /// Seconds and nanoseconds since 1970 of the last change of the inode. Most file systems let no program set it.
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

    /// Removes the record, if there is one: the next command verifies its bundle.
    pub fn forget(state: &Path) {
        // If kubexm cannot write the state directory, the next command fails, too.
        let _ = Self::remove(state);
    }

    /// Returns whether a command with this state directory verified this bundle. An unreadable record counts as none.
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kubexm_types::event::{Event, Events, Listener};

    use super::*;
    use crate::bundle_access::verify_once;
    use crate::rollback::tests::signed;

    /// Counts the bundles that are read.
    #[derive(Default)]
    struct Reads(Mutex<usize>);

    impl Listener for Reads {
        fn on(&self, event: &Event) {
            if let Event::TransferStarted { kind, .. } = event {
                *self.0.lock().unwrap() += usize::from(*kind == "verify");
            }
        }
    }

    #[tokio::test]
    async fn files_are_read_again_only_after_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = signed(folder.path(), [1, 2].map(|n| ("example", n)));
        let path = first.path().to_owned();
        let [first, second] =
            [first, second].map(|bundle| Arc::new(BundleSet::new(bundle, Vec::new()).unwrap()));
        let reads = Arc::new(Reads::default());
        let events = Events::new(reads.clone());
        let read = async |bundle| {
            verify_once(bundle, folder.path(), &events).await.unwrap();
            std::mem::take(&mut *reads.0.lock().unwrap())
        };
        assert_eq!(read(&first).await, 1);
        assert_eq!(read(&first).await, 0);
        assert_eq!(read(&second).await, 1, "another file");
        assert_eq!(read(&first).await, 1, "the record has the last bundle");

        // Another file with the same bytes and the same time of modification.
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let copy = folder.path().join("copy");
        std::fs::write(&copy, std::fs::read(&path).unwrap()).unwrap();
        let file = std::fs::File::options().write(true).open(&copy).unwrap();
        file.set_modified(modified).unwrap();
        std::fs::rename(&copy, &path).unwrap();
        assert_eq!(read(&first).await, 1, "replaced");
        std::fs::write(folder.path().join(VerifiedBundle::FILE), "{").unwrap();
        assert_eq!(read(&first).await, 1, "a damaged record");
        assert_eq!(read(&first).await, 0);
        VerifiedBundle::forget(folder.path());
        assert_eq!(read(&first).await, 1, "a command failed");
    }
}
