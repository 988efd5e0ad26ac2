//! `kubexm registry remove`.

use clap::Args;

use super::change::{ClusterArgs, print};
use crate::cli::{Failure, interrupt};
use crate::report::Output;
use kubexm_operate::registry::{self, RemoveOptions};
use kubexm_types::ImageRef;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm registry remove <IMAGE>... -f <CLUSTER> [OPTIONS]",
    after_long_help = "Examples:
  kubexm registry remove ghcr.io/team/app:v1 -f cluster.yaml --dry-run
  kubexm registry remove ghcr.io/team/app:v1 ghcr.io/team/job:v1 -f c.yaml"
)]
pub struct Remove {
    /// The images, as `kubexm registry list` names them
    #[arg(value_name = "IMAGE", required = true, value_parser = ImageRef::parse)]
    images: Vec<ImageRef>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Remove images although they are in use, or although this is not known
    ///
    /// Pods with such an image start only on a node that has it already.
    #[arg(long)]
    force: bool,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Removes the images.
pub async fn run(arguments: &Remove, output: Output, events: &Events) -> Result<(), Failure> {
    let options = RemoveOptions {
        cluster: arguments.cluster.cluster.clone(),
        connection: arguments.cluster.connection.options()?,
        images: arguments.images.clone(),
        force: arguments.force,
        dry_run: arguments.dry_run,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let report = registry::remove(&options, events, &stop).await?;
    print(
        &report,
        output,
        "the registries do not have the images any more",
    );
    Ok(())
}
