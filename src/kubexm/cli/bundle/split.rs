//! `kubexm bundle split`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::BundleArgs;
use crate::cli::{Failure, interrupt, target};
use kubexm_bundling::VolumeSize;
use kubexm_bundling::split_join::{SplitOptions, split};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle split bundle.tar.zst --size 4GiB -o /media/usb")]
pub struct Split {
    #[command(flatten)]
    bundle: BundleArgs,
    /// The largest size of a volume, such as 4GiB (for FAT32) or 650MB
    #[arg(long, alias = "split", value_name = "SIZE")]
    size: VolumeSize,
    /// The folder for the volumes
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// Splits a bundle into volumes.
pub async fn run(arguments: Split, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let options = SplitOptions {
        bundle: arguments.bundle.path()?.to_owned(),
        access: arguments.bundle.access(),
        size: arguments.size,
        out: arguments.out,
    };
    target::print(&split(options, events, &stop).await?);
    Ok(())
}
