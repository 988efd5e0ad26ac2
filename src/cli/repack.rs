//! A bundle with another content, out of one that is there: what `bundle add` and `bundle remove`
//! share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::Failure;
use super::build::{lock_path, write_lock};
use super::bundle::threads;
use super::out::say;
use crate::bundle::storage::{Opened, Storage};
use crate::bundle::{self, Bundle, Lock, PackOptions, Recipes};
use crate::deploy::proof;
use crate::event::Events;
use crate::fetch::Cache;
use crate::plan::Stop;
use crate::report;
use crate::spec::{self, Digest};

/// Where the new bundle goes.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Where the new bundle is written; its lock goes beside it. May be the old one, which stays whole
    /// until the new one is
    #[arg(short, long, value_name = "NEW")]
    out: PathBuf,
    /// Compression level, 1 (fast) to 19 (small)
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(i32).range(1..=19))]
    level: i32,
    /// Where downloads, and the old bundle's blobs, are kept
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

/// What the old bundle knows of its layers, then what the cache knows.
struct Known<'a> {
    bundle: BTreeMap<Digest, Option<Opened>>,
    cache: &'a Cache,
}

impl Recipes for Known<'_> {
    fn recall(&self, blob: &Digest) -> Option<Option<Opened>> {
        let known = self.bundle.get(blob).cloned();
        known.or_else(|| self.cache.recall(blob))
    }

    fn keep(&self, blob: &Digest, opened: Option<&Opened>) {
        self.cache.keep(blob, opened);
    }
}

impl Target {
    /// Opens the cache, and sees whether a bundle can be written where it shall be.
    pub fn prepare(&self) -> Result<Cache, Failure> {
        bundle::check_folder(&self.out)?;
        let root = self.cache.clone().unwrap_or_else(Cache::default_dir);
        Ok(Cache::open(&root)?)
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
        let wanted = lock.blobs();
        let had = old.lock().blobs();
        let stay = wanted.iter().filter(|(digest, _)| had.contains_key(digest));
        let stay = stay.map(|(digest, (size, _))| (*digest, *size)).collect();
        events.phase("unpack");
        cache.take_over(old, &stay, events, stop)?;
        let storage = self.arrange(old, lock, cache, events, stop)?;
        events.phase("pack");
        let options = PackOptions {
            level: self.level,
            threads: threads() as u32,
        };
        let written = bundle::write_until(&self.out, lock, &storage, cache, options, events, stop)?;
        let beside = lock_path(&self.out);
        write_lock(&beside, lock)?;
        say!("{}", self.out.display());
        let content: u64 = wanted.values().map(|(size, _)| size).sum();
        let (size, content) = (report::bytes(written.size), report::bytes(content));
        say!("  size     {size} ({content} of content)");
        say!("  sha256   {}", written.digest.hex());
        say!("  lock     {}", beside.display());
        Ok(())
    }

    /// Layers are held as the old bundle holds them: opened, or as they came.
    fn arrange(
        &self,
        old: &Bundle,
        lock: &Lock,
        cache: &Cache,
        events: &Events,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Storage, Failure> {
        let storage = old.storage();
        let kept = storage == Storage::plain(old.lock());
        if kept {
            return Ok(Storage::plain(lock));
        }
        events.phase("open");
        let entries = storage.groups.into_iter().flat_map(|group| group.entries);
        let known = Known {
            bundle: entries.map(|entry| (entry.blob, entry.opened)).collect(),
            cache,
        };
        let openings = bundle::openings(lock, cache, &known, threads(), events, stop)?;
        Ok(bundle::arrange(lock, &openings))
    }
}

/// What keeps clusters of the default shape from being installed, of every Kubernetes version that
/// a lock names, in sentences.
pub fn lacking(lock: &Lock, bundle: &Arc<Bundle>) -> Result<Vec<String>, Failure> {
    let blobs: Arc<dyn bundle::Blobs> = Arc::clone(bundle) as _;
    let mut lacking = Vec::new();
    for version in &lock.kubernetes {
        let cluster = spec::default_cluster(version)?;
        let (findings, _) = proof::prove(&cluster, lock, &blobs)?;
        lacking.extend(
            findings
                .iter()
                .map(|what| format!("Kubernetes {version}: {what}")),
        );
    }
    Ok(lacking)
}
