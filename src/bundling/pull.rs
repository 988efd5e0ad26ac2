//! `bundle pull`: copies a bundle from a registry.

use std::collections::btree_map::Entry;
use std::path::PathBuf;

use crate::{WrittenBundle, lock_file};
use kubexm_bundle::{BundleError, Level, PackOptions, Signed};
use kubexm_config::mirrors::Checksums;
use kubexm_fetch::oci::{Puller, is_loopback};
use kubexm_session::downloads::DownloadOptions;
use kubexm_session::{CommandError, Stop, background, text_file, threads};
use kubexm_types::event::Events;
use kubexm_types::{ImageRef, PublicKey};

/// What to pull.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// `oci://registry/repository:tag`, or `@sha256:…` for exactly one bundle.
    pub source: String,
    /// The path of the bundle; its lock is written beside it.
    pub out: PathBuf,
    /// The compression level. The level of the original reproduces the original file.
    pub level: Level,
    /// The minisign keys of which one must have signed the bundle; empty if no signature is required.
    pub trust: Vec<PublicKey>,
    /// Whether to use HTTP without TLS.
    pub plain_http: bool,
    /// How to download.
    pub downloads: DownloadOptions,
}

/// The bundle and its lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullReport {
    /// The bundle.
    pub written: WrittenBundle,
    /// The lock beside it.
    pub lock: PathBuf,
}

/// Downloads the blobs of a bundle and packs them.
///
/// # Errors
/// The registry does not have the bundle, no trusted key signed it, or it cannot be written.
#[tracing::instrument(skip_all, fields(source = %options.source))]
pub async fn pull(
    options: PullOptions,
    events: &Events,
    stop: &Stop,
) -> Result<PullReport, CommandError> {
    let source =
        ImageRef::parse_place(&options.source, None).map_err(CommandError::configuration)?;
    text_file::refuse_folder(&options.out)?;
    kubexm_bundle::check_folder(&options.out)?;
    let registry = source.registry().to_owned();
    let mut mirrors = options.downloads.mirrors()?;
    if options.plain_http || is_loopback(&registry) {
        let address = format!("http://{registry}");
        if let Entry::Vacant(entry) = mirrors.registries.entry(registry) {
            entry.insert(vec![address]);
            // The address is the registry itself: there is no other server to compare it with.
            mirrors.checksums = Checksums::Mirror;
        }
    }
    let http = options.downloads.client(mirrors, events)?;
    let cache = http.cache().clone();
    let puller = Puller::new(http);
    let pulled = tokio::select! {
        pulled = puller.bundle(&source, &options.trust) => pulled?,
        () = stop.cancelled() => return Err(BundleError::Stopped.into()),
    };
    let (events, stop) = (events.clone(), stop.clone());
    background::run(move || {
        events.phase("pack");
        let packing = PackOptions {
            signed: Signed::As(&pulled.documents),
            ..PackOptions::new(options.level, threads() as u32)
        };
        let (lock, storage, out) = (&pulled.lock, &pulled.storage, &options.out);
        let stop = || stop.is_cancelled();
        let written =
            kubexm_bundle::write_until(out, lock, storage, &cache, packing, &events, &stop)?;
        let beside = lock_file::beside(out);
        lock_file::write(&beside, lock)?;
        Ok(PullReport {
            written: WrittenBundle::announce(&events, out, &written, None),
            lock: beside,
        })
    })
    .await
}
