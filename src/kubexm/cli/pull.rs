//! `kubexm bundle pull`: a whole bundle out of a registry.

use std::path::PathBuf;

use clap::Args;

use super::build::{lock_path, write_lock};
use super::bundle::threads;
use super::downloads::Downloads;
use super::out::say;
use super::subject::public_key;
use super::{Failure, copies, interrupt};
use kubexm_bundle::{BundleError, Level, PackOptions, Signed};
use kubexm_fetch::oci::{Puller, is_loopback};
use kubexm_types::event::Events;
use kubexm_types::{ImageRef, PublicKey};

#[derive(Debug, Args)]
pub struct Pull {
    /// oci://registry/repository:tag, or @sha256:… for just that bundle
    place: String,
    /// Where the bundle is written; its lock goes beside it
    #[arg(short, long, value_name = "BUNDLE")]
    out: PathBuf,
    /// Compression level, 1 (fast) to 19 (small); that of the original gives its very bytes
    #[arg(long, default_value_t)]
    level: Level,
    /// Take only a bundle that this minisign key signed: its file, or the line in it; may be repeated
    #[arg(long, value_name = "KEY", value_parser = public_key)]
    trust: Vec<PublicKey>,
    /// Speak HTTP without TLS; registries on this machine are spoken to like that anyway
    #[arg(long)]
    plain_http: bool,
    #[command(flatten)]
    downloads: Downloads,
}

/// Fetches a bundle's blobs and packs them as they were.
pub async fn run(arguments: Pull, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let place = ImageRef::parse_place(&arguments.place, None).map_err(Failure::configuration)?;
    kubexm_bundle::check_folder(&arguments.out)?;
    let registry = place.registry().to_owned();
    let mut mirrors = arguments.downloads.mirrors()?;
    if arguments.plain_http || is_loopback(&registry) {
        let address = format!("http://{registry}");
        mirrors.registries.entry(registry).or_insert(vec![address]);
    }
    let http = arguments.downloads.client(mirrors, events)?;
    let cache = http.cache().clone();
    let puller = Puller::new(http)?;
    let pulled = tokio::select! {
        pulled = puller.bundle(&place, &arguments.trust) => pulled?,
        () = stop.cancelled() => return Err(BundleError::Stopped.into()),
    };
    let (lock, out) = (pulled.lock.clone(), arguments.out.clone());
    let (listener, level) = (events.clone(), arguments.level);
    let written = tokio::task::spawn_blocking(move || {
        listener.phase("pack");
        let options = PackOptions {
            signed: Signed::As(&pulled.texts),
            ..PackOptions::new(level, threads() as u32)
        };
        let (lock, storage) = (&pulled.lock, &pulled.storage);
        let stop = || stop.is_cancelled();
        kubexm_bundle::write_until(&out, lock, storage, &cache, options, &listener, &stop)
    });
    let written = written.await.map_err(Failure::bundle)??;
    let beside = lock_path(&arguments.out);
    write_lock(&beside, &lock)?;
    copies::tell(events, &arguments.out, written, None);
    say!("  lock     {}", beside.display());
    Ok(())
}
