//! The content-addressed cache of verified blobs, shared by all builds of a user.

pub mod gc;
mod ownership;
mod verified;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fs4::fs_std::FileExt;

use crate::FetchError;
use crate::partial::Partial;
use kubexm_bundle::{Blobs, BundleError};
use kubexm_types::{AtomicFile, Digest};

pub use verified::VerifiedBlob;

/// A directory with `blobs/sha256/<digest>`, `partial/<key>` with its `.record`, and
/// `recipes/<digest>.json`.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens or creates the cache at `root`. Only this user can access a new cache.
    ///
    /// # Errors
    /// The cache cannot be created, belongs to another user, or is writable by other users.
    pub fn open(root: &Path) -> Result<Self, FetchError> {
        ownership::private_dir(root)?;
        for folder in ["blobs", "blobs/sha256", "partial", "recipes"] {
            ownership::private_dir(&root.join(folder))?;
        }
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// Returns `$XDG_CACHE_HOME/kubexm`, or `~/.cache/kubexm`.
    pub fn default_dir() -> PathBuf {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let base = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(home);
        base.unwrap_or_else(|| PathBuf::from("/var/cache"))
            .join("kubexm")
    }

    /// Returns the path of a blob, whether or not it exists.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    /// Returns the directory of blobs.
    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs/sha256")
    }

    /// Returns the directory of the cache.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of partial downloads.
    pub fn unfinished(&self) -> PathBuf {
        self.root.join("partial")
    }

    /// Returns the directory of gzip analysis results.
    pub(super) fn analyses(&self) -> PathBuf {
        self.root.join("recipes")
    }

    /// Returns the size of a blob in bytes, if it exists.
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        self.path(digest)
            .metadata()
            .ok()
            .map(|metadata| metadata.len())
    }

    /// Returns the content of a small blob.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>, FetchError> {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            VerifiedBlob::open(self, digest)?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|source| failed(&self.path(digest), source))
    }

    /// Opens a blob that is compared with its digest while it is read.
    ///
    /// # Errors
    /// The blob does not exist or cannot be read.
    pub fn verified(&self, digest: &Digest) -> Result<VerifiedBlob, FetchError> {
        VerifiedBlob::open(self, digest).map_err(|source| failed(&self.path(digest), source))
    }

    /// Copies a blob to a new file with these permission bits. A damaged blob leaves no file.
    ///
    /// # Errors
    /// The blob cannot be read or is damaged, or the file cannot be written.
    pub fn copy(&self, digest: &Digest, to: &Path, mode: u32) -> Result<(), FetchError> {
        let mut blob = self.verified(digest)?;
        let mut write = || -> io::Result<()> {
            let mut file = File::create_new(to)?;
            io::copy(&mut blob, &mut file)?;
            file.set_permissions(PermissionsExt::from_mode(mode))
        };
        write().map_err(|source| {
            // The copy must not be used. It may not exist.
            let _ = std::fs::remove_file(to);
            failed(&self.path(digest), source)
        })
    }

    /// Stores bytes that are verified already.
    pub fn insert(&self, bytes: &[u8]) -> Result<Digest, FetchError> {
        let digest = Digest::of(bytes);
        if self.size(&digest) != Some(bytes.len() as u64) {
            let fail = |source| failed(&self.path(&digest), source);
            self.put(&digest, |file| file.write_all(bytes).map_err(fail))?;
        }
        Ok(digest)
    }

    /// Renames a temporary file to its digest after `fill` has written and verified all of its content.
    pub(super) fn put<T, E: From<FetchError>>(
        &self,
        digest: &Digest,
        fill: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        let target = self.path(digest);
        let fail = |source| E::from(failed(&target, source));
        // A temporary file instead of the partial file of this digest, so that there is no lock to wait for.
        let mut file = AtomicFile::create_in(&self.unfinished(), &target, 0o600).map_err(fail)?;
        let filled = fill(file.as_file_mut())?;
        file.commit().map_err(fail)?;
        Ok(filled)
    }

    /// Opens the partial file of a download without waiting for its lock; see [`Cache::claim`].
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn partial(&self, key: &str) -> Result<Partial, FetchError> {
        let path = self.unfinished().join(key);
        self.locked(&path, &|| {})
            .map_err(|source| failed(&path, source))
    }

    /// Locks the partial file of a download for this process, after any other process has released it.
    /// Returns the blob if another process published `expected` in the meantime. Calls `on_wait` before
    /// it waits for another process.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub async fn claim(
        &self,
        key: &str,
        expected: Option<Digest>,
        on_wait: impl Fn() + Send + 'static,
    ) -> Result<Claim, FetchError> {
        let path = self.unfinished().join(key);
        let (cache, name) = (self.clone(), path.clone());
        // Waiting for the lock and hashing block, which would stop other downloads on this thread.
        let taken = tokio::task::spawn_blocking(move || {
            let partial = cache.locked(&name, &on_wait)?;
            Ok(match expected.and_then(|e| Some((e, cache.size(&e)?))) {
                Some((digest, size)) => {
                    partial.discard();
                    Claim::Published(digest, size)
                }
                None => Claim::Partial(Box::new(partial)),
            })
        });
        taken
            .await
            .map_err(io::Error::other)
            .flatten()
            .map_err(|source| failed(&path, source))
    }

    /// Opens and locks the file that has this name *after* the lock is acquired. The previous owner may have
    /// renamed it to its final name, and a published blob must never be opened for writing.
    fn locked(&self, path: &Path, on_wait: &dyn Fn()) -> io::Result<Partial> {
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?;
            if !FileExt::try_lock_exclusive(&file)? {
                on_wait();
                FileExt::lock_exclusive(&file)?;
            }
            let ours = file.metadata()?;
            let named = match std::fs::symlink_metadata(path) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if (ours.dev(), ours.ino()) != (named.dev(), named.ino()) {
                continue;
            }
            return Partial::take_over(self.clone(), path, file);
        }
    }
}

impl Blobs for Cache {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let blob = VerifiedBlob::open(self, digest);
        let blob = blob.map_err(|source| BundleError::io(&self.path(digest), source))?;
        Ok(Box::new(blob))
    }

    fn open_for_hashing(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let path = self.path(digest);
        let file = File::open(&path).map_err(|source| BundleError::io(&path, source))?;
        Ok(Box::new(file))
    }

    fn place(&self, digest: &Digest) -> String {
        self.path(digest).display().to_string()
    }
}

/// Converts an I/O error at a path of the cache.
pub(super) fn failed(path: &Path, source: io::Error) -> FetchError {
    if source.kind() == io::ErrorKind::StorageFull {
        return FetchError::Full {
            path: path.display().to_string(),
            missing: None,
        };
    }
    FetchError::Cache {
        path: path.display().to_string(),
        source,
    }
}

/// The result of [`Cache::claim`].
pub enum Claim {
    /// Another process has finished the download: digest and size of the blob in the cache.
    Published(Digest, u64),
    /// The partial file, locked for the caller.
    Partial(Box<Partial>),
}
