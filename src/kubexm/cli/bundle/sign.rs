//! `kubexm bundle sign`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::BundleArgs;
use crate::cli::output::outln;
use crate::cli::password::KeyPasswordArgs;
use crate::cli::{Failure, interrupt, target};
use kubexm_bundling::sign::{SignOptions, sign};
use kubexm_bundling::{Sequence, VolumeSize};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle sign bundle.tar.zst --key site.key
  kubexm bundle sign bundle.tar.zst --key site.key -o signed.tar.zst")]
pub struct Sign {
    #[command(flatten)]
    bundle: BundleArgs,
    /// The minisign secret key
    #[arg(long, alias = "sign", value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    password: KeyPasswordArgs,
    /// Sequence number of the signature [default: seconds since 1970, or SOURCE_DATE_EPOCH]
    ///
    /// `install` refuses a bundle with a smaller number than the newest one of the cluster.
    #[arg(long, value_name = "N")]
    sequence: Option<Sequence>,
    /// Path of the signed bundle [default: replaces the bundle]
    #[arg(short, long, value_name = "BUNDLE")]
    out: Option<PathBuf>,
    /// Write volumes of at most this size, such as 4GiB (for FAT32)
    #[arg(long, alias = "size", value_name = "SIZE")]
    split: Option<VolumeSize>,
}

/// Signs a bundle.
pub async fn run(arguments: Sign, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let options = SignOptions {
        bundle: arguments.bundle.path()?.to_owned(),
        access: arguments.bundle.access(),
        signer: arguments
            .password
            .signer(&arguments.key, arguments.sequence)?,
        out: arguments.out,
        split: arguments.split,
    };
    let report = sign(options, events, &stop).await?;
    target::print(&report.written);
    outln!("  trust    {}", report.public_key);
    target::print_revision(&report.revision);
    Ok(())
}
