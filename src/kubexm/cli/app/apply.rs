//! `kubexm app apply`.

use clap::Args;

use crate::cli::registry::add::AddArgs;
use crate::cli::registry::change::print;
use crate::cli::{Failure, interrupt};
use crate::report::Output;
use kubexm_operate::registry;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm app apply -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm app apply -f c.yaml --bundle apps.tar.zst --trust site.pub --dry-run
  kubexm app apply -f c.yaml --bundle apps.tar.zst --trust site.pub"
)]
pub struct Apply {
    #[command(flatten)]
    given: AddArgs,
}

/// Applies the applications.
pub async fn run(arguments: &Apply, output: Output, events: &Events) -> Result<(), Failure> {
    let options = arguments.given.options(&[], true)?;
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let report = registry::add(&options, events, &stop).await?;
    print(&report, output, "the cluster has the applications");
    Ok(())
}
