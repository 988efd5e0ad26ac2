//! The cluster of a command, and how the result of a change is printed.

use std::path::PathBuf;

use clap::Args;

use crate::cli::bundle_args::AccessArgs;
use crate::cli::connection::ConnectionArgs;
use crate::cli::output::outln;
use crate::report::Output;
use kubexm_operate::registry::ChangeReport;
use kubexm_session::ClusterSource;

/// A cluster, and how to reach it.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    pub cluster: PathBuf,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

impl ClusterArgs {
    /// Returns the cluster file with a bundle.
    pub fn source(&self, bundles: &[PathBuf], access: &AccessArgs) -> ClusterSource {
        ClusterSource {
            bundles: bundles.to_vec(),
            cluster: self.cluster.clone(),
            access: access.options(),
        }
    }
}

/// Prints the result of a change for people.
pub fn print(report: &ChangeReport, output: Output, done: &str) {
    match report.changed {
        Some(changed) if output != Output::Json => outln!("{done}: {changed} changes"),
        _ => {}
    }
}
