//! `cache`: the downloads that are kept between builds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::lock_file;
use kubexm_fetch::cache::Cache;
use kubexm_session::downloads::open_cache;
use kubexm_session::{CommandError, FileError};
use kubexm_types::Digest;

/// Opens a cache. One that the user named must exist: a command that only looks creates none.
fn existing(folder: Option<&Path>) -> Result<Cache, CommandError> {
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let error = FileError::new("open the cache", folder, "the folder does not exist");
        return Err(error.hint("correct --cache, or KUBEXM_CACHE").into());
    }
    open_cache(folder)
}

/// The content of the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheContents {
    /// The blobs, by digest.
    pub blobs: Vec<CachedBlob>,
    /// The downloads that are not complete.
    pub partial: Vec<PartialDownload>,
}

/// A blob in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CachedBlob {
    /// The digest.
    pub digest: Digest,
    /// The size in bytes.
    pub size: u64,
}

/// A download that is not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialDownload {
    /// The path.
    pub path: PathBuf,
    /// The size in bytes of the part that is stored.
    pub bytes: u64,
    /// The size in bytes of the whole file, if known.
    pub total: Option<u64>,
}

impl CacheContents {
    /// Returns the size of all blobs in bytes.
    pub fn bytes(&self) -> u64 {
        self.blobs
            .iter()
            .map(|blob| blob.size)
            .fold(0, u64::saturating_add)
    }
}

/// The result of reading every blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheVerification {
    /// The number of blobs that were read.
    pub blobs: usize,
    /// The damaged blobs, which were removed.
    pub removed: Vec<PathBuf>,
}

/// Which blobs to remove.
#[derive(Debug, Clone)]
pub struct CollectOptions {
    /// The cache folder; `None` for the default one.
    pub cache: Option<PathBuf>,
    /// The locks whose blobs are kept.
    pub keep: Vec<PathBuf>,
    /// Whether only to report.
    pub dry_run: bool,
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Collected {
    /// The number of blobs.
    pub blobs: usize,
    /// The number of downloads that were not complete.
    pub partial: usize,
    /// The size of both in bytes.
    pub bytes: u64,
    /// Whether nothing was removed, because only a report was asked for.
    pub dry_run: bool,
}

/// Lists the content of the cache.
///
/// # Errors
/// The cache cannot be read.
pub fn list(cache: Option<&Path>) -> Result<CacheContents, CommandError> {
    let cache = existing(cache)?;
    let blobs = cache.kept()?.into_iter().map(|kept| CachedBlob {
        digest: kept.digest,
        size: kept.size,
    });
    let partial = cache
        .partials()?
        .into_iter()
        .map(|partial| PartialDownload {
            path: partial.path,
            bytes: partial.bytes,
            total: partial.total,
        });
    Ok(CacheContents {
        blobs: blobs.collect(),
        partial: partial.collect(),
    })
}

/// Reads every blob, and removes those that do not match their digest.
///
/// # Errors
/// The cache cannot be read.
pub fn verify(cache: Option<&Path>) -> Result<CacheVerification, CommandError> {
    let cache = existing(cache)?;
    let kept = cache.kept()?;
    let mut removed = Vec::new();
    for blob in &kept {
        if !cache.is_right(blob)? {
            cache.remove(blob)?;
            removed.push(blob.path.clone());
        }
    }
    Ok(CacheVerification {
        blobs: kept.len(),
        removed,
    })
}

impl CacheVerification {
    /// Fails if a blob was damaged.
    ///
    /// # Errors
    /// Names every damaged blob.
    pub fn check(&self) -> Result<(), CommandError> {
        if self.removed.is_empty() {
            return Ok(());
        }
        Err(CommandError::DamagedCache {
            blobs: self.blobs,
            removed: self.removed.clone(),
        })
    }
}

/// Removes every blob and every unfinished download that no lock needs.
///
/// # Errors
/// A lock or the cache cannot be read.
pub fn collect(options: &CollectOptions) -> Result<Collected, CommandError> {
    let cache = existing(options.cache.as_deref())?;
    let mut needed: BTreeSet<Digest> = BTreeSet::new();
    for path in &options.keep {
        needed.extend(lock_file::read_existing(path)?.blobs().keys().copied());
    }
    let mut collected = Collected {
        blobs: 0,
        partial: 0,
        bytes: 0,
        dry_run: options.dry_run,
    };
    for kept in cache.kept()? {
        if needed.contains(&kept.digest) {
            continue;
        }
        if !options.dry_run {
            cache.remove(&kept)?;
        }
        collected.blobs += 1;
        collected.bytes += kept.size;
    }
    for partial in cache.partials()? {
        // A download that another process continues right now is not removed.
        if partial.is_of(&needed) || !(options.dry_run || cache.forget(&partial)?) {
            continue;
        }
        collected.partial += 1;
        collected.bytes += partial.bytes;
    }
    if !options.dry_run {
        for stray in cache.strays()? {
            // The next run finds the file again if it cannot be removed now.
            let _ = std::fs::remove_file(stray);
        }
    }
    Ok(collected)
}
