//! Writes a bundle with different content from an existing bundle: shared by `add` and `remove`.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{VolumeSize, WrittenBundle, lock_file};
use kubexm_bundle::format::placement::DecompressedGzips;
use kubexm_bundle::{
    Blobs, Bundle, BundleError, DecompressedGzip, EncoderCache, Level, Lock, PackOptions,
    Placement, StoredContent,
};
use kubexm_fetch::Cache;
use kubexm_session::{CommandError, Stop, background, text_file, threads};
use kubexm_types::event::Events;
use kubexm_types::{Digest, Message, WarningKind};

/// Where and how the new bundle is written.
#[derive(Debug, Clone)]
pub struct Target {
    /// The path of the new bundle; its lock is written beside it. May be the path of the old bundle.
    pub out: PathBuf,
    /// The compression level.
    pub level: Level,
    /// The size of volumes; `None` for a single file.
    pub split: Option<VolumeSize>,
}

/// The new bundle and its lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repacked {
    /// The bundle.
    pub written: WrittenBundle,
    /// The lock beside it.
    pub lock: PathBuf,
}

impl Target {
    /// Checks that a bundle can be written to the path.
    pub fn check(&self) -> Result<(), CommandError> {
        text_file::refuse_folder(&self.out)?;
        Ok(kubexm_bundle::check_folder(&self.out)?)
    }

    /// Packs the content of `lock` from the blobs of the old bundle and of the cache.
    pub async fn pack(
        &self,
        old: Arc<Bundle>,
        lock: Lock,
        cache: Cache,
        events: &Events,
        stop: &Stop,
    ) -> Result<Repacked, CommandError> {
        let (target, events, stop) = (self.clone(), events.clone(), stop.clone());
        background::run(move || {
            let stop = || stop.is_cancelled();
            target.pack_until(&old, &lock, &cache, &events, &stop)
        })
        .await
    }

    fn pack_until(
        &self,
        old: &Bundle,
        lock: &Lock,
        cache: &Cache,
        events: &Events,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Repacked, CommandError> {
        let blobs = OldAndCache { old, cache };
        let (storage, proven) = storage(&blobs, lock, events, stop)?;
        events.phase("pack");
        let options = PackOptions {
            volume: self.split.map(VolumeSize::bytes),
            copied: Some(old),
            proven: Some(&proven),
            ..PackOptions::new(self.level, threads() as u32)
        };
        let out = &self.out;
        let written =
            kubexm_bundle::write_until(out, lock, &storage, &blobs, options, events, stop)?;
        let beside = lock_file::beside(out);
        lock_file::write(&beside, lock)?;
        if let Some(signature) = old.signature() {
            let key = &signature.key;
            let text = format!(
                "{} is not signed: the signature of key {key} is for the old content",
                out.display()
            );
            let warning = Message::new(text).hint("sign it with `kubexm bundle sign`");
            events.warn(WarningKind::Signatures, warning);
        }
        Ok(Repacked {
            written: WrittenBundle::announce(events, out, &written, self.split),
            lock: beside,
        })
    }
}

/// Leaves the blobs of the old bundle in their groups, so that the compressed groups can be copied. Stores
/// new gzip layers as the old bundle stores its own: decompressed, or as published. Also returns the gzip
/// blobs whose recompression the old bundle or this program proved.
fn storage(
    blobs: &OldAndCache<'_>,
    lock: &Lock,
    events: &Events,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(Placement, DecompressedGzips), CommandError> {
    let old = blobs.old.storage();
    if *old == Placement::plain(blobs.old.lock()) {
        return Ok((Placement::plain(lock), DecompressedGzips::new()));
    }
    events.phase("analyze");
    let mut gzip = kubexm_bundle::analyze_gzip(lock, blobs, blobs, threads(), events, stop)?;
    let storage = old.clone().changed_to(kubexm_bundle::arrange(lock, &gzip));
    gzip.retain(|blob, opened| !blobs.old.carries(blob) || blobs.old.proves(blob, opened));
    Ok((storage, gzip))
}

/// Blobs of the old bundle, and new ones in the cache. Each source knows how its own blobs are stored.
struct OldAndCache<'a> {
    old: &'a Bundle,
    cache: &'a Cache,
}

impl OldAndCache<'_> {
    fn source(&self, digest: &Digest) -> &dyn Blobs {
        if self.old.carries(digest) {
            self.old
        } else {
            self.cache
        }
    }
}

impl Blobs for OldAndCache<'_> {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.source(digest).open(digest)
    }

    fn open_for_hashing(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.source(digest).open_for_hashing(digest)
    }

    fn open_content(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.source(digest).open_content(digest)
    }

    fn open_stored_content(
        &self,
        digest: &Digest,
        opened: &DecompressedGzip,
    ) -> Result<StoredContent, BundleError> {
        self.source(digest).open_stored_content(digest, opened)
    }

    fn place(&self, digest: &Digest) -> String {
        self.source(digest).place(digest)
    }
}

impl EncoderCache for OldAndCache<'_> {
    fn recall(&self, blob: &Digest) -> Option<Option<DecompressedGzip>> {
        if self.old.carries(blob) {
            Some(self.old.opened(blob).cloned())
        } else {
            self.cache.recall(blob)
        }
    }

    fn keep(&self, blob: &Digest, opened: Option<&DecompressedGzip>) {
        self.cache.keep(blob, opened);
    }
}
