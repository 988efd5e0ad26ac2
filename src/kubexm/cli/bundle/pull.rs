//! `kubexm bundle pull`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::public_key;
use crate::cli::downloads::DownloadArgs;
use crate::cli::{Failure, interrupt, target};
use kubexm_bundling::Level;
use kubexm_bundling::pull::{PullOptions, pull};
use kubexm_types::PublicKey;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle pull oci://registry.example.com/bundles/site:1 -o bundle.tar.zst")]
pub struct Pull {
    /// oci://registry/repository:tag, or @sha256:… for exactly one bundle
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Path of the bundle; its lock is written beside it
    #[arg(short, long, value_name = "BUNDLE")]
    out: PathBuf,
    /// Compression level, 1 (fast) to 19 (small). The level of the original reproduces the original file
    #[arg(long, default_value_t)]
    level: Level,
    /// Accept only a bundle that this minisign key signed: a key file, or the key itself; repeatable
    #[arg(long, value_name = "KEY", value_parser = public_key)]
    trust: Vec<PublicKey>,
    /// Use HTTP without TLS; always the case for registries on this machine
    #[arg(long)]
    plain_http: bool,
    #[command(flatten)]
    downloads: DownloadArgs,
}

/// Copies a bundle from a registry.
pub async fn run(arguments: Pull, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let options = PullOptions {
        source: arguments.source,
        out: arguments.out,
        level: arguments.level,
        trust: arguments.trust,
        plain_http: arguments.plain_http,
        downloads: arguments.downloads.options(),
    };
    let report = pull(options, events, &stop).await?;
    target::print(&report.written);
    target::print_lock(&report.lock);
    Ok(())
}
