//! `kubexm app diff`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::AccessArgs;
use crate::cli::registry::change::ClusterArgs;
use crate::cli::{Failure, interrupt, output};
use crate::report::Output;
use kubexm_operate::applications::{self, ApplicationDiff, DiffOptions};
use kubexm_types::event::Events;
use kubexm_types::{ErrorKind, ReleaseName};

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm app diff [NAME]... -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm app diff -f c.yaml --bundle b.tar.zst
  kubexm app diff shop -f c.yaml --bundle b.tar.zst --output json"
)]
pub struct Diff {
    /// The applications; without one, all of the cluster file
    #[arg(value_name = "NAME", value_parser = ReleaseName::parse)]
    names: Vec<ReleaseName>,
    /// The bundle; the base bundles of an incremental bundle come before it
    #[arg(long, value_name = "BUNDLE", required = true)]
    bundle: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints the comparison. Fails with the exit code 6 if the next install changes an application.
pub async fn run(arguments: &Diff, format: Output, events: &Events) -> Result<(), Failure> {
    let options = DiffOptions {
        source: arguments
            .cluster
            .source(&arguments.bundle, &arguments.access),
        connection: arguments.cluster.connection.options()?,
        names: arguments.names.clone(),
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let found = applications::diff(&options, events, &stop).await?;
    match format {
        Output::Json => output::document("ApplicationDiff", &found)?,
        Output::Auto | Output::Plain => output::text(&text(&found)),
    }
    if found.has_changes() {
        return Err(Failure::found(ErrorKind::Changes));
    }
    Ok(())
}

fn text(found: &ApplicationDiff) -> String {
    if found.applications.is_empty() {
        return "the cluster file has no applications\n".to_owned();
    }
    found.applications.iter().map(ToString::to_string).collect()
}
