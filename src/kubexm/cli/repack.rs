//! A bundle with another content, out of one that is there: what `bundle add` and `bundle remove`
//! share.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::build::{lock_path, write_lock};
use super::bundle::threads;
use super::out::say;
use super::volume_size::{VolumeSize, at_most};
use super::{Failure, copies};
use kubexm_bundle::{
    Blobs, Bundle, BundleError, DecompressedGzip, EncoderCache, Held, Level, Lock, PackOptions,
    Placement,
};
use kubexm_deploy::proof;
use kubexm_engine::plan::Stop;
use kubexm_fetch::Cache;
use kubexm_types::Digest;
use kubexm_types::event::Events;

/// Where the new bundle goes.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Where the new bundle is written; its lock goes beside it. May be the old one, which stays whole
    /// until the new one is
    #[arg(short, long, value_name = "NEW")]
    out: PathBuf,
    /// Compression level, 1 (fast) to 19 (small)
    #[arg(long, default_value_t)]
    level: Level,
    /// Write volumes of at most this size, as in 4GiB (what FAT32 takes)
    #[arg(long, value_name = "SIZE", value_parser = at_most)]
    split: Option<VolumeSize>,
}

/// Blobs that stay, out of the old bundle, and new ones, out of the cache. Each knows how its own can be
/// held opened up.
struct Both<'a> {
    old: &'a Bundle,
    cache: &'a Cache,
}

impl Both<'_> {
    fn holder(&self, digest: &Digest) -> &dyn Blobs {
        match self.old.carries(digest) {
            true => self.old,
            false => self.cache,
        }
    }
}

impl Blobs for Both<'_> {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.holder(digest).open(digest)
    }

    fn open_inside(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.holder(digest).open_inside(digest)
    }

    fn open_held(&self, digest: &Digest, opened: &DecompressedGzip) -> Result<Held, BundleError> {
        self.holder(digest).open_held(digest, opened)
    }

    fn place(&self, digest: &Digest) -> String {
        self.holder(digest).place(digest)
    }
}

impl EncoderCache for Both<'_> {
    fn recall(&self, blob: &Digest) -> Option<Option<DecompressedGzip>> {
        match self.old.carries(blob) {
            true => Some(self.old.opened(blob).cloned()),
            false => self.cache.recall(blob),
        }
    }

    fn keep(&self, blob: &Digest, opened: Option<&DecompressedGzip>) {
        self.cache.keep(blob, opened);
    }
}

impl Target {
    /// Sees whether a bundle can be written where it shall be.
    pub fn prepare(&self) -> Result<(), Failure> {
        Ok(kubexm_bundle::check_folder(&self.out)?)
    }

    /// Packs what `lock` says from the old bundle's blobs and the cache.
    pub async fn pack(
        &self,
        old: Arc<Bundle>,
        lock: Lock,
        cache: Cache,
        events: &Events,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let (target, events, stop) = (self.clone(), events.clone(), stop.clone());
        let packed = tokio::task::spawn_blocking(move || {
            let stop = || stop.is_cancelled();
            target.pack_until(&old, &lock, &cache, &events, &stop)
        });
        packed.await.map_err(Failure::bundle)?
    }

    fn pack_until(
        &self,
        old: &Bundle,
        lock: &Lock,
        cache: &Cache,
        events: &Events,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Failure> {
        let both = Both { old, cache };
        let storage = self.arrange(&both, lock, events, stop)?;
        events.phase("pack");
        let options = PackOptions {
            volume: self.split.map(VolumeSize::bytes),
            ..PackOptions::new(self.level, threads() as u32)
        };
        let written =
            kubexm_bundle::write_until(&self.out, lock, &storage, &both, options, events, stop)?;
        let beside = lock_path(&self.out);
        write_lock(&beside, lock)?;
        copies::tell(events, &self.out, written, self.split);
        say!("  lock     {}", beside.display());
        Ok(())
    }

    /// Layers are held as the old bundle holds them: opened, or as they came.
    fn arrange(
        &self,
        both: &Both<'_>,
        lock: &Lock,
        events: &Events,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Placement, Failure> {
        if *both.old.storage() == Placement::plain(both.old.lock()) {
            return Ok(Placement::plain(lock));
        }
        events.phase("open");
        let openings = kubexm_bundle::openings(lock, both, both, threads(), events, stop)?;
        Ok(kubexm_bundle::arrange(lock, &openings))
    }
}

/// What keeps clusters of the default shape from being installed, of every Kubernetes version that
/// a lock names, in sentences.
pub fn lacking(lock: &Lock, bundle: &Arc<Bundle>) -> Result<Vec<String>, Failure> {
    let blobs: Arc<dyn kubexm_bundle::Blobs> = Arc::clone(bundle) as _;
    let mut lacking = Vec::new();
    for version in &lock.kubernetes {
        for cluster in proof::default_clusters(lock, version)? {
            let findings = proof::prove(&cluster, lock, &blobs)?.findings;
            let findings = findings.iter();
            lacking.extend(findings.map(|what| format!("Kubernetes {version}: {what}")));
        }
    }
    Ok(lacking)
}
