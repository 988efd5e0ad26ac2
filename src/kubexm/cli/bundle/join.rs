//! `kubexm bundle join`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::BundleArgs;
use crate::cli::{Failure, interrupt, target};
use kubexm_bundling::split_join::{JoinOptions, join};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle join /media/usb/bundle.tar.zst.001 -o bundle.tar.zst
  kubexm bundle join usb1/bundle.tar.zst.001 --volumes usb2 -o bundle.tar.zst")]
pub struct Join {
    #[command(flatten)]
    bundle: BundleArgs,
    /// Path of the bundle
    #[arg(short, long, value_name = "BUNDLE")]
    out: PathBuf,
}

/// Writes one file from volumes.
pub async fn run(arguments: Join, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let options = JoinOptions {
        bundle: arguments.bundle.path()?.to_owned(),
        access: arguments.bundle.access(),
        out: arguments.out,
    };
    target::print(&join(options, events, &stop).await?);
    Ok(())
}
