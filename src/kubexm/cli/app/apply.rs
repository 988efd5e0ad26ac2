//! `kubexm app apply`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::AccessArgs;
use crate::cli::registry::change::{ClusterArgs, print};
use crate::cli::{Failure, interrupt};
use crate::report::Output;
use kubexm_operate::registry::{self, AddOptions};
use kubexm_session::ClusterSource;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm app apply -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm app apply -f c.yaml --bundle apps.tar.zst --trust site.pub --dry-run
  kubexm app apply -f c.yaml --bundle apps.tar.zst --trust site.pub"
)]
pub struct Apply {
    /// The bundle; the base bundles of an incremental bundle come before it
    #[arg(long, value_name = "BUNDLE", required = true)]
    bundle: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Go on although no key verifies the signature of the bundle
    ///
    /// Pods run the images of the bundle. Without a key (--trust, or spec.bundle.trust in the cluster file) this option is
    /// required.
    #[arg(long, conflicts_with = "trust")]
    unsigned: bool,
    /// Accept a bundle that is older than the one of its name that the cluster was installed from
    #[arg(long)]
    allow_older: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Applies the applications.
pub async fn run(arguments: &Apply, output: Output, events: &Events) -> Result<(), Failure> {
    let options = AddOptions {
        source: ClusterSource {
            bundles: arguments.bundle.clone(),
            cluster: arguments.cluster.cluster.clone(),
            access: arguments.access.options(),
        },
        connection: arguments.cluster.connection.options()?,
        unsigned: arguments.unsigned,
        allow_older: arguments.allow_older,
        images: Vec::new(),
        dry_run: arguments.dry_run,
        applications: true,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let report = registry::add(&options, events, &stop).await?;
    print(&report, output, "the cluster has the applications");
    Ok(())
}
