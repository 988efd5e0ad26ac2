//! `bundle build` and `bundle lock`: everything that a manifest names, downloaded and packed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::sbom::{self, SbomFile};
use crate::trust::{self, TrustGroup};
use crate::{VolumeSize, WrittenBundle, base, lock_file};
use kubexm_bundle::format::placement::Base;
use kubexm_bundle::lock::blob_index::content_size;
use kubexm_bundle::lock::difference::{Difference, differences};
use kubexm_bundle::{Level, Lock, PackOptions, Placement, Revision, Signed, Signer, Written};
use kubexm_fetch::Cache;
use kubexm_session::{CommandError, FileError, Stop, background, text_file, threads};
use kubexm_types::event::Events;
use kubexm_types::{Digest, WarningKind};

pub use crate::sources::Sources;

/// How a bundle stores gzip layers and archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GzipStorage {
    /// Decompressed, where kubexm can reproduce the original bytes.
    Decompressed,
    /// As published.
    Keep,
}

/// What to build, and how.
pub struct BuildOptions {
    /// What the bundle is built from.
    pub sources: Sources,
    /// The path of the bundle; its lock is written beside it.
    pub out: PathBuf,
    /// Whether to fail if the result would differ from the existing lock.
    pub locked: bool,
    /// The compression level.
    pub level: Level,
    /// How gzip layers and archives are stored.
    pub gzip: GzipStorage,
    /// Bundles, locks and inventories whose blobs the bundle does not contain.
    pub base: Vec<PathBuf>,
    /// The size of volumes; `None` for a single file.
    pub split: Option<VolumeSize>,
    /// The key to sign the bundle with.
    pub signer: Option<Signer>,
    /// The SBOM to write after the build.
    pub sbom: Option<SbomFile>,
}

/// What a build wrote.
#[derive(Debug)]
pub struct BuildReport {
    /// The bundle.
    pub written: WrittenBundle,
    /// The size of all blobs in bytes, before compression.
    pub content: u64,
    /// The lock beside the bundle.
    pub lock: PathBuf,
    /// The creation time and the sequence number of the signature, if the bundle is signed.
    pub revision: Option<Revision>,
    /// Why each file and image is trusted.
    pub trust: Vec<TrustGroup>,
    /// The notes of the SBOM, if one was written.
    pub sbom: Option<(PathBuf, BTreeSet<String>)>,
}

/// Which lock to write.
#[derive(Debug, Clone)]
pub struct LockOptions {
    /// What a bundle would be built from.
    pub sources: Sources,
    /// The path of the lock. Versions and digests in an existing lock are kept.
    pub out: PathBuf,
}

/// What `bundle lock` wrote.
#[derive(Debug)]
pub struct LockReport {
    /// The lock.
    pub path: PathBuf,
    /// The differences from the previous lock at the same path.
    pub differences: Vec<Difference>,
}

/// Builds a bundle.
///
/// # Errors
/// The manifest is wrong, a download fails, the bundle would not be complete, or it cannot be written.
#[tracing::instrument(skip_all, fields(out = %options.out.display()))]
pub async fn build(
    options: BuildOptions,
    events: &Events,
    stop: &Stop,
) -> Result<BuildReport, CommandError> {
    // These checks come first, so that a wrong path fails before anything is downloaded.
    text_file::refuse_folder(&options.out)?;
    kubexm_bundle::check_folder(&options.out)?;
    let site = base::read(&options.base)?;
    options.sbom.as_ref().map_or(Ok(()), SbomFile::check)?;
    let lock_path = lock_file::beside(&options.out);
    let previous = lock_file::read(&lock_path)?;
    if options.locked && previous.is_none() {
        let error = FileError::new("read the lock", &lock_path, "there is no such file");
        return Err(error.hint("build once without --locked to get one").into());
    }
    let local = base::bundles(&options.base)?;
    let files = options.sources.read()?;
    let resolving = options
        .sources
        .resolve(files, previous.as_ref(), local, events, stop);
    let (lock, cache) = Box::pin(resolving).await?;
    if options.locked {
        refuse_drift(previous.as_ref(), &lock, &lock_path)?;
    }
    let wanted: BTreeSet<Digest> = lock.blobs().keys().copied().collect();
    let base = site.and_then(|(site, digest)| site.base(digest, &wanted));
    if base.is_none() && !options.base.is_empty() {
        events.warn(
            WarningKind::Base,
            "--base: the site has no blob of this bundle; the bundle contains all of them",
        );
    }
    let revision = options.signer.as_ref().map(Signer::revision);
    let packing = Packing {
        path: options.out.clone(),
        lock: lock.clone(),
        cache,
        gzip: options.gzip,
        level: options.level,
        split: options.split,
        base,
        signer: options.signer,
    };
    let (listener, stop) = (events.clone(), stop.clone());
    let written = background::run(move || packing.pack(&listener, &stop)).await?;
    lock_file::write(&lock_path, &lock)?;
    let written = WrittenBundle::announce(events, &options.out, &written, options.split);
    let sbom = match options.sbom {
        None => None,
        Some(file) => {
            events.phase("sbom");
            let notes = sbom::write_beside(&file, &options.out)?;
            Some((file.path, notes))
        }
    };
    Ok(BuildReport {
        written,
        content: content_size(lock.blobs()),
        trust: trust::groups(&lock),
        lock: lock_path,
        revision,
        sbom,
    })
}

/// Writes the lock of a bundle without building it.
///
/// # Errors
/// As for [`build`].
#[tracing::instrument(skip_all, fields(out = %options.out.display()))]
pub async fn lock(
    options: &LockOptions,
    events: &Events,
    stop: &Stop,
) -> Result<LockReport, CommandError> {
    let files = options.sources.read()?;
    text_file::check(&options.out)?;
    let previous = lock_file::read(&options.out)?;
    let resolving = options
        .sources
        .resolve(files, previous.as_ref(), Vec::new(), events, stop);
    let (lock, _) = Box::pin(resolving).await?;
    lock_file::write(&options.out, &lock)?;
    let differences = previous.iter().flat_map(|old| differences(old, &lock));
    Ok(LockReport {
        path: options.out.clone(),
        differences: differences.collect(),
    })
}

/// What is packed, and how.
struct Packing {
    path: PathBuf,
    lock: Lock,
    cache: Cache,
    gzip: GzipStorage,
    level: Level,
    split: Option<VolumeSize>,
    base: Option<Base>,
    signer: Option<Signer>,
}

impl Packing {
    fn pack(self, events: &Events, stop: &Stop) -> Result<Written, CommandError> {
        let (lock, cache) = (&self.lock, &self.cache);
        let stop = || stop.is_cancelled();
        let mut proven = None;
        let mut storage = match self.gzip {
            GzipStorage::Keep => Placement::plain(lock),
            GzipStorage::Decompressed => {
                events.phase("analyze");
                let gzip =
                    kubexm_bundle::analyze_gzip(lock, cache, cache, threads(), events, &stop)?;
                kubexm_bundle::arrange(lock, proven.insert(gzip))
            }
        };
        if let Some(base) = self.base {
            storage = storage.without(base);
        }
        events.phase("pack");
        let options = PackOptions {
            volume: self.split.map(VolumeSize::bytes),
            signed: self.signer.as_ref().map_or(Signed::No, Signed::By),
            proven: proven.as_ref(),
            ..PackOptions::new(self.level, threads() as u32)
        };
        let path = &self.path;
        let written =
            kubexm_bundle::write_until(path, lock, &storage, cache, options, events, &stop)?;
        Ok(written)
    }
}

/// Fails if the lock differs from the previous one.
fn refuse_drift(previous: Option<&Lock>, lock: &Lock, path: &Path) -> Result<(), CommandError> {
    let Some(previous) = previous.filter(|previous| *previous != lock) else {
        return Ok(());
    };
    Err(CommandError::Drift {
        lock: path.to_owned(),
        differences: differences(previous, lock),
    })
}
