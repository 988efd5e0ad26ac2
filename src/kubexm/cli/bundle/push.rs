//! `kubexm bundle push`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::AccessArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, interrupt};
use crate::report::bytes;
use kubexm_bundling::push::{PushOptions, push};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle push bundle.tar.zst oci://registry.example.com/bundles/site:1")]
pub struct Push {
    /// The bundle
    bundle: PathBuf,
    #[command(flatten)]
    access: AccessArgs,
    /// oci://registry/repository[:tag]; the default tag is the name of the bundle
    #[arg(value_name = "DESTINATION")]
    destination: String,
    /// Use HTTP without TLS; always the case for registries on this machine
    #[arg(long)]
    plain_http: bool,
    /// Another repository of the registry, whose blobs are mounted instead of sent
    #[arg(long, value_name = "REPOSITORY")]
    mount_from: Option<String>,
    /// Folder for blobs that wait to be sent: at most 512 MiB and the largest blob
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

/// Copies a bundle to a registry.
pub async fn run(arguments: Push, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_PUSH);
    let options = PushOptions {
        bundle: arguments.bundle,
        access: arguments.access.options(),
        destination: arguments.destination,
        plain_http: arguments.plain_http,
        mount_from: arguments.mount_from,
        cache: arguments.cache,
    };
    let pushed = push(&options, events, &stop).await?;
    outln!("oci://{}", pushed.destination);
    outln!("  digest   {}", pushed.digest);
    outln!("  lock     {}", pushed.lock);
    outln!(
        "  sent     {} of {} blobs, {}",
        pushed.sent,
        pushed.blobs,
        bytes(pushed.bytes)
    );
    outln!("  images   {} can be pulled there by digest", pushed.images);
    if pushed.signatures > 0 {
        outln!(
            "  signed   {} of them by their publishers",
            pushed.signatures
        );
    }
    Ok(())
}
