//! `kubexm plan`: what a first install would do.

use std::path::PathBuf;

use clap::Args;

use super::bundle_args::ClusterArgs;
use super::output::say;
use super::{Failure, output};
use crate::report::Output;
use kubexm_commands::plan;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm plan bundle.tar.zst -f cluster.yaml
  kubexm plan bundle.tar.zst -f cluster.yaml -o plan.json")]
pub struct Plan {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Write the plan as JSON, without secrets, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Prints the plan, or writes it as JSON.
pub fn run(arguments: &Plan, output: Output) -> Result<(), Failure> {
    let planned = plan::plan(&arguments.cluster.source())?;
    let Some(path) = &arguments.out else {
        match output {
            Output::Json => output::document("Plan", &planned.document()?)?,
            Output::Auto | Output::Plain => output::text(&planned.text()?),
        }
        return Ok(());
    };
    let document = planned.document()?;
    plan::save(path, &document)?;
    say!(
        "{}: {} tasks on {} hosts",
        path.display(),
        document.tasks.len(),
        document.hosts.len()
    );
    Ok(())
}
