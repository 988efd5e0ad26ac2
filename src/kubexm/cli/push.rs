//! `kubexm bundle push`: a whole bundle into a registry.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::out::say;
use super::subject::Opening;
use super::{Failure, interrupt};
use crate::report;
use kubexm_fetch::Cache;
use kubexm_fetch::oci::{PushAccess, Pusher};
use kubexm_types::ImageRef;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
pub struct Push {
    /// The bundle
    bundle: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// oci://registry/repository[:tag]; without a tag, the bundle's name is one
    place: String,
    /// Speak HTTP without TLS; registries on this machine are spoken to like that anyway
    #[arg(long)]
    plain_http: bool,
    /// Another repository of the registry, which may have blobs that need not be sent then
    #[arg(long, value_name = "REPOSITORY")]
    mount_from: Option<String>,
    /// Where blobs wait for being sent: takes up to half a gigabyte and the largest blob
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

/// Sends what the registry lacks.
pub async fn run(arguments: Push, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, "stopping: what the registry has stays there");
    let bundle = Arc::new(arguments.opening.open_complete(&arguments.bundle)?);
    let place = ImageRef::parse_place(&arguments.place, Some(&bundle.lock().name))
        .map_err(Failure::configuration)?;
    let cache = Cache::open(&arguments.cache.unwrap_or_else(Cache::default_dir))?;
    let pusher = Pusher::new(
        place.clone(),
        PushAccess {
            plain_http: arguments.plain_http,
            ..PushAccess::default()
        },
        arguments.mount_from.as_deref(),
        &cache.unfinished(),
        events.clone(),
    )
    .await?;
    let pushed = tokio::select! {
        pushed = pusher.push(Arc::clone(&bundle)) => pushed?,
        () = stop.cancelled() => {
            let words = "stopped; what the tag names is as it was, and the same command goes on from \
                         what was sent";
            return Err(Failure::interrupted(words));
        }
    };
    say!("oci://{place}");
    say!("  digest   {}", pushed.digest);
    say!("  lock     {}", bundle.lock_digest());
    say!(
        "  sent     {} of {} blobs, {}",
        pushed.sent,
        pushed.sent + pushed.there,
        report::bytes(pushed.bytes)
    );
    say!("  images   {} can be pulled there by digest", pushed.images);
    if pushed.signatures > 0 {
        say!(
            "  signed   {} of them by their publishers",
            pushed.signatures
        );
    }
    Ok(())
}
