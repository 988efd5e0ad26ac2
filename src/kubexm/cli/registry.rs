//! `kubexm registry`: the registry that a cluster file names.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::bundle_args::BundleArgs;
use super::output::outln;
use super::{Failure, interrupt};
use kubexm_commands::registry::{SeedOptions, seed};
use kubexm_types::event::Events;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Push the images of a bundle to the registry of a cluster file
    ///
    /// The cluster file must have `registry.type: external`. Its hosts pull every image from there.
    Seed(Seed),
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
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
}

/// Runs one of the commands.
pub async fn run(command: Command, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Seed(arguments) => run_seed(arguments, events).await,
    }
}

async fn run_seed(arguments: Seed, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_PUSH);
    let options = SeedOptions {
        bundle: arguments.bundle.path()?.to_owned(),
        access: arguments.bundle.access(),
        cluster: arguments.cluster,
        cache: arguments.cache,
    };
    let report = seed(&options, events, &stop).await?;
    outln!("{} images are at {}", report.images, report.registry);
    outln!("  sent     {} blobs", report.sent);
    Ok(())
}
