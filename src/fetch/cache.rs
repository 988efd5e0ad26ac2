//! The content-addressed cache: verified blobs only, shared by all builds of a user.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs4::fs_std::FileExt;

use super::FetchError;
use super::partial::Partial;
use kubexm_bundle::{Blobs, BundleError};
use kubexm_types::{AtomicFile, Digest};

/// A folder with `blobs/sha256/<digest>`, `partial/<key>` with its `.record`, and
/// `recipes/<digest>.json`.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens or makes the cache at `root`.
    pub fn open(root: &Path) -> Result<Self, FetchError> {
        for folder in ["blobs/sha256", "partial", "recipes"] {
            let path = root.join(folder);
            std::fs::create_dir_all(&path).map_err(|source| failed(&path, source))?;
        }
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// `$XDG_CACHE_HOME/kubexm`, or `~/.cache/kubexm`.
    pub fn default_dir() -> PathBuf {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let base = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(home);
        base.unwrap_or_else(|| PathBuf::from("/var/cache"))
            .join("kubexm")
    }

    /// Where a blob lies, whether it is there or not.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    /// The folder of blobs.
    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs/sha256")
    }

    /// The folder of the cache itself.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of downloads that go on.
    pub fn unfinished(&self) -> PathBuf {
        self.root.join("partial")
    }

    /// The folder of what is known about blobs.
    pub(super) fn recipes(&self) -> PathBuf {
        self.root.join("recipes")
    }

    /// Size of a blob in bytes, if it is there.
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        self.path(digest)
            .metadata()
            .ok()
            .map(|metadata| metadata.len())
    }

    /// A small blob's bytes.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>, FetchError> {
        let path = self.path(digest);
        let bytes = std::fs::read(&path).map_err(|source| failed(&path, source))?;
        if Digest::of(&bytes) == *digest {
            return Ok(bytes);
        }
        let source = io::Error::new(
            io::ErrorKind::InvalidData,
            "the file was changed; remove it",
        );
        Err(failed(&path, source))
    }

    /// Puts bytes that are known to be right into the cache.
    pub fn insert(&self, bytes: &[u8]) -> Result<Digest, FetchError> {
        let digest = Digest::of(bytes);
        if self.size(&digest) != Some(bytes.len() as u64) {
            let fail = |source| failed(&self.path(&digest), source);
            self.put(&digest, |file| file.write_all(bytes).map_err(fail))?;
        }
        Ok(digest)
    }

    /// Gives content its name, once `fill` has written all of it and found it right.
    pub(super) fn put<T, E: From<FetchError>>(
        &self,
        digest: &Digest,
        fill: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        let target = self.path(digest);
        let fail = |source| E::from(failed(&target, source));
        // A name of its own instead of the partial file of this digest: nobody need be waited for.
        let mut file = AtomicFile::create_in(&self.unfinished(), &target, 0o600).map_err(fail)?;
        let filled = fill(file.as_file_mut())?;
        file.commit().map_err(fail)?;
        Ok(filled)
    }

    /// Opens the partial file of a download, whole by itself: see [`Cache::claim`].
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn partial(&self, key: &str) -> Result<Partial, FetchError> {
        let path = self.unfinished().join(key);
        self.locked(&path, &|| {})
            .map_err(|source| failed(&path, source))
    }

    /// Takes the partial file of a download for this process alone, once no other has it. Where
    /// another one has published `expected` meanwhile there is nothing left to do. `on_wait` is
    /// called where another process must be waited for.
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
        // Waiting for a lock and hashing what is there would keep other downloads from moving.
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

    /// Locks the file that has this name *after* the lock is held: whoever held it before may have
    /// given it its final name, and a writer must never get hold of a published blob.
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
        let path = self.path(digest);
        // Packing compares every digest itself; a second hash here would be work done twice.
        let file = File::open(&path).map_err(|source| BundleError::io(&path, source))?;
        Ok(Box::new(file))
    }

    fn place(&self, digest: &Digest) -> String {
        self.path(digest).display().to_string()
    }
}

/// The error of a path in the cache.
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

/// What somebody who wants to download finds.
pub enum Claim {
    /// Another process was faster: digest and size of the blob in the cache.
    Published(Digest, u64),
    /// The bytes that are there already, for the caller alone.
    Partial(Box<Partial>),
}
