//! Maintenance of the cache: listing, verification and deletion.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs4::fs_std::FileExt;

use super::{Cache, failed};
use crate::FetchError;
use crate::record::Record;
use kubexm_types::{AtomicFile, Digest, DigestReader};

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A blob in the cache.
#[derive(Debug, Clone)]
pub struct Kept {
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
    pub path: PathBuf,
}

/// An unfinished download.
#[derive(Debug, Clone)]
pub struct Unfinished {
    pub path: PathBuf,
    /// Received bytes, which are not requested again.
    pub bytes: u64,
    /// Size of the whole file in bytes, if known.
    pub total: Option<u64>,
}

impl Unfinished {
    /// Whether the download is one of these blobs. The name is the blob's digest, if that was known;
    /// otherwise it is the digest of an address.
    pub fn is_of(&self, needed: &BTreeSet<Digest>) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        let digest = name.and_then(|name| Digest::parse(name).ok());
        digest.is_some_and(|digest| needed.contains(&digest))
    }
}

impl Cache {
    /// Returns all blobs by digest. Files with other names do not belong to kubexm and are ignored.
    ///
    /// # Errors
    /// The cache cannot be read.
    pub fn kept(&self) -> Result<Vec<Kept>, FetchError> {
        let mut kept: Vec<Kept> = files(&self.blobs())?
            .into_iter()
            .filter_map(|(path, size)| {
                let name = path.file_name()?.to_str()?;
                let digest = format!("sha256:{name}").parse().ok()?;
                Some(Kept { digest, size, path })
            })
            .collect();
        kept.sort_by_key(|kept| kept.digest);
        Ok(kept)
    }

    /// Returns the unfinished downloads, which the next build continues.
    ///
    /// # Errors
    /// The cache cannot be read.
    pub fn partials(&self) -> Result<Vec<Unfinished>, FetchError> {
        let mut partials = Vec::new();
        for (path, length) in files(&self.unfinished())? {
            if is_partial(&path) {
                let (version, there) = Record::read(&path, length);
                partials.push(Unfinished {
                    bytes: there.bytes(),
                    total: version.total,
                    path,
                });
            }
        }
        partials.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(partials)
    }

    /// Deletes an unfinished download, unless a build uses it. Returns whether it was deleted.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn forget(&self, unfinished: &Unfinished) -> Result<bool, FetchError> {
        let take = || -> io::Result<bool> {
            let file = File::open(&unfinished.path)?;
            if !FileExt::try_lock_exclusive(&file)? {
                return Ok(false);
            }
            // If the process is killed here, the partial file without a record is found as a stray.
            std::fs::remove_file(Record::path_of(&unfinished.path))
                .or_else(|error| none_is_fine(&error))?;
            std::fs::remove_file(&unfinished.path)?;
            Ok(true)
        };
        match take() {
            // A build has just finished the download.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            result => result.map_err(|source| failed(&unfinished.path, source)),
        }
    }

    /// Returns files that killed processes left: records without a download, and temporary files. Only files
    /// that are at least a day old are returned, because a running build may use newer ones.
    ///
    /// # Errors
    /// The cache cannot be read.
    pub fn strays(&self) -> Result<Vec<PathBuf>, FetchError> {
        let mut strays = Vec::new();
        for folder in [self.unfinished(), self.analyses()] {
            for (path, _) in files(&folder)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let on_its_way = name.starts_with(".tmp") || name.starts_with(AtomicFile::PREFIX);
                let lonely = path.extension().is_some_and(|kind| kind == "record")
                    && !path.with_extension("").exists();
                let old = path.metadata().and_then(|about| about.modified());
                let old = old.ok().and_then(|when| when.elapsed().ok());
                if (on_its_way || lonely) && old.is_some_and(|age| age > A_DAY) {
                    strays.push(path);
                }
            }
        }
        Ok(strays)
    }

    /// Whether the content of a blob has the digest of its name.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_right(&self, kept: &Kept) -> Result<bool, FetchError> {
        let read = || -> io::Result<Digest> {
            let mut reader = DigestReader::new(File::open(&kept.path)?);
            io::copy(&mut reader, &mut io::sink())?;
            Ok(reader.finish().0)
        };
        let digest = read().map_err(|source| failed(&kept.path, source))?;
        Ok(digest == kept.digest)
    }

    /// Deletes a blob. A running build that needs it fails, and downloads it when it is run again.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn remove(&self, kept: &Kept) -> Result<(), FetchError> {
        // The result of the gzip analysis has no use without the blob, and may not exist.
        let _ = std::fs::remove_file(self.analysis_path(&kept.digest));
        std::fs::remove_file(&kept.path).map_err(|source| failed(&kept.path, source))
    }
}

fn is_partial(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| !name.starts_with('.') && !name.contains('.'))
}

fn none_is_fine(error: &io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        kind => Err(kind.into()),
    }
}

fn files(folder: &Path) -> Result<Vec<(PathBuf, u64)>, FetchError> {
    let read = || -> io::Result<Vec<(PathBuf, u64)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            // Deleted in the meantime by a running build.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_file() {
                files.push((entry.path(), metadata.len()));
            }
        }
        Ok(files)
    };
    read().map_err(|source| failed(folder, source))
}
