//! `kubexm bundle merge`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::AccessArgs;
use crate::cli::{Failure, interrupt, target};
use kubexm_bundling::merge::{MergeOptions, merge};
use kubexm_bundling::{Level, VolumeSize};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle merge old.tar.zst new.tar.zst -o complete.tar.zst")]
pub struct Merge {
    /// The base bundles in any order, and last the incremental bundle
    #[arg(required = true, num_args = 2.., value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// Path of the complete bundle; its lock is written beside it
    #[arg(short, long, value_name = "BUNDLE")]
    out: PathBuf,
    /// Compression level, 1 (fast) to 19 (small)
    #[arg(long, default_value_t)]
    level: Level,
    /// Write volumes of at most this size, such as 4GiB (for FAT32)
    #[arg(long, alias = "size", value_name = "SIZE")]
    split: Option<VolumeSize>,
    #[command(flatten)]
    access: AccessArgs,
}

/// Writes one complete bundle.
pub async fn run(arguments: Merge, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let options = MergeOptions {
        bundles: arguments.bundles,
        access: arguments.access.options(),
        out: arguments.out,
        level: arguments.level,
        split: arguments.split,
    };
    target::print(&merge(options, events, &stop).await?);
    Ok(())
}
