//! `kubexm registry sync`.

use clap::Args;

use super::change::{ClusterArgs, print};
use crate::cli::{Failure, interrupt};
use crate::report::Output;
use kubexm_operate::registry::{self, SyncOptions};
use kubexm_types::HostName;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm registry sync -f cluster.yaml --dry-run
  kubexm registry sync -f cluster.yaml
  kubexm registry sync -f cluster.yaml --from node1")]
pub struct Sync {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The host whose images are right where a name means different ones
    #[arg(long, value_name = "HOST", value_parser = HostName::parse)]
    from: Option<HostName>,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Makes the registries equal.
pub async fn run(arguments: &Sync, output: Output, events: &Events) -> Result<(), Failure> {
    let options = SyncOptions {
        cluster: arguments.cluster.cluster.clone(),
        connection: arguments.cluster.connection.options()?,
        from: arguments.from.clone(),
        dry_run: arguments.dry_run,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let report = registry::sync(&options, events, &stop).await?;
    print(&report, output, "the registries are equal");
    Ok(())
}
