//! Looking after the cache: what is in it, whether it is right, and taking things away.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::cache::failed;
use super::{Cache, FetchError};
use crate::spec::{Digest, DigestReader};

/// A blob in the cache.
#[derive(Debug, Clone)]
pub struct Kept {
    /// What it is.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
    /// Where it lies.
    pub path: PathBuf,
}

impl Cache {
    /// Every blob, by digest. Files with other names are none of ours and are passed over.
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

    /// Downloads that did not come to their end: the next build goes on from them.
    ///
    /// # Errors
    /// The cache cannot be read.
    pub fn partials(&self) -> Result<Vec<(PathBuf, u64)>, FetchError> {
        let mut partials = files(&self.unfinished())?;
        partials.retain(|(path, _)| path.extension().is_none());
        partials.sort();
        Ok(partials)
    }

    /// Whether a blob still has the bytes that its name says.
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

    /// Takes a blob away. A build that is running and wants it fails, and downloads it when it is
    /// run again.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn remove(&self, kept: &Kept) -> Result<(), FetchError> {
        // It says nothing without its blob, and there need not be one.
        let _ = std::fs::remove_file(self.recipe(&kept.digest));
        std::fs::remove_file(&kept.path).map_err(|source| failed(&kept.path, source))
    }
}

fn files(folder: &Path) -> Result<Vec<(PathBuf, u64)>, FetchError> {
    let read = || -> io::Result<Vec<(PathBuf, u64)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() {
                files.push((entry.path(), metadata.len()));
            }
        }
        Ok(files)
    };
    read().map_err(|source| failed(folder, source))
}
