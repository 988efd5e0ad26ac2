//! `kubexm registry seed`: fills the registry of a site.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::BundleArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, interrupt};
use kubexm_operate::registry::{SeedOptions, seed, seed_dry_run};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm registry seed bundle.tar.zst -f cluster.yaml --dry-run
  kubexm registry seed bundle.tar.zst -f cluster.yaml")]
pub struct Seed {
    #[command(flatten)]
    bundle: BundleArgs,
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    /// Folder for blobs that wait to be sent: at most 512 MiB and the largest blob
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Pushes the images.
pub async fn run(arguments: Seed, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_PUSH);
    let options = SeedOptions {
        bundle: arguments.bundle.path()?.to_owned(),
        access: arguments.bundle.access(),
        cluster: arguments.cluster,
        cache: arguments.cache,
    };
    if arguments.dry_run {
        return Ok(seed_dry_run(&options, events, &stop).await?);
    }
    let report = seed(&options, events, &stop).await?;
    outln!("{} images are at {}", report.images, report.registry);
    outln!("  sent     {} blobs", report.sent);
    Ok(())
}
