//! `kubexm app remove`.

use std::io::IsTerminal;

use clap::Args;

use crate::cli::confirmation::is_typed;
use crate::cli::registry::change::{ClusterArgs, print};
use crate::cli::{Failure, interrupt};
use crate::report::Output;
use kubexm_operate::applications::{self, RemoveOptions};
use kubexm_types::event::Events;
use kubexm_types::{Namespace, ReleaseName};

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm app remove <NAME> -f <CLUSTER> [OPTIONS]",
    after_long_help = "Examples:
  kubexm app remove shop -f cluster.yaml --dry-run
  kubexm app remove shop -f cluster.yaml --namespace shop --yes"
)]
pub struct Remove {
    /// The name of the application
    #[arg(value_name = "NAME", value_parser = ReleaseName::parse)]
    name: ReleaseName,
    /// The namespace, if several have a release of this name
    #[arg(long, value_name = "NAMESPACE", value_parser = Namespace::parse)]
    namespace: Option<Namespace>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Removes the application.
pub async fn run(arguments: &Remove, output: Output, events: &Events) -> Result<(), Failure> {
    if !arguments.yes && !arguments.dry_run && !std::io::stdin().is_terminal() {
        return Err(
            Failure::configuration("the removal was not confirmed; nothing was touched")
                .hint("type the name of the application, or pass --yes"),
        );
    }
    let options = RemoveOptions {
        cluster: arguments.cluster.cluster.clone(),
        connection: arguments.cluster.connection.options()?,
        name: arguments.name.clone(),
        namespace: arguments.namespace.clone(),
        dry_run: arguments.dry_run,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let name = arguments.name.to_string();
    let confirm = async || {
        let question = format!("This removes {name} and its objects. Type '{name}' to go on: ");
        arguments.yes || is_typed(question, name.clone()).await
    };
    let report = applications::remove(&options, confirm, events, &stop).await?;
    print(&report, output, "the application is removed");
    Ok(())
}
