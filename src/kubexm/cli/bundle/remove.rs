//! `kubexm bundle remove`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::AccessArgs;
use crate::cli::output::outln;
use crate::cli::target::{TargetArgs, print_repacked};
use crate::cli::{Failure, interrupt};
use kubexm_bundling::remove::{RemoveOptions, remove};
use kubexm_types::Arch;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle remove bundle.tar.zst ghcr.io/acme/app:1.0 -o new.tar.zst
  kubexm bundle remove bundle.tar.zst --arch arm64 -o amd64.tar.zst")]
pub struct Remove {
    /// The bundle
    bundle: PathBuf,
    #[command(flatten)]
    access: AccessArgs,
    /// Images, components, files, charts or manifests, as `bundle list` names them
    #[arg(required_unless_present = "arch")]
    names: Vec<String>,
    /// Everything that only hosts of this architecture need; repeatable
    #[arg(long, value_delimiter = ',')]
    arch: Vec<Arch>,
    /// Also remove what clusters, charts or manifests of the bundle need
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    target: TargetArgs,
    /// Cache folder; stores the results of gzip analysis between builds
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

/// Removes content from a bundle.
pub async fn run(arguments: Remove, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let options = RemoveOptions {
        bundle: arguments.bundle,
        access: arguments.access.options(),
        names: arguments.names,
        architectures: arguments.arch,
        force: arguments.force,
        target: arguments.target.options(),
        cache: arguments.cache,
    };
    let report = remove(&options, events, &stop).await?;
    for difference in &report.differences {
        outln!("{difference}");
    }
    print_repacked(&report.repacked);
    Ok(())
}
