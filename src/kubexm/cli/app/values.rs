//! `kubexm app values`.

use clap::Args;

use crate::cli::bundle_args::ClusterArgs;
use crate::cli::{Failure, output};
use crate::report::Output;
use kubexm_operate::applications::{self, ValuesOptions};
use kubexm_types::ReleaseName;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm app values <NAME> -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm app values shop -f c.yaml --bundle b.tar.zst
  kubexm app values shop -f c.yaml --bundle b.tar.zst --defaults"
)]
pub struct Values {
    /// The name of the application
    #[arg(value_name = "NAME", value_parser = ReleaseName::parse)]
    name: ReleaseName,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print the values of the chart alone, with its comments
    #[arg(long)]
    defaults: bool,
}

/// Prints the values.
pub fn run(arguments: &Values, format: Output, events: &Events) -> Result<(), Failure> {
    let options = ValuesOptions {
        source: arguments.cluster.source(),
        name: arguments.name.clone(),
    };
    let found = applications::values(&options, events)?;
    match format {
        Output::Json => output::document("ApplicationValues", &found)?,
        _ if arguments.defaults => output::text(&found.defaults),
        Output::Auto | Output::Plain => output::text(&found.yaml()?),
    }
    Ok(())
}
