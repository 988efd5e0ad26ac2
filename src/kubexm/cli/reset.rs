//! `kubexm reset`.

use std::path::PathBuf;

use clap::Args;

use super::connection::ConnectionArgs;
use super::output::outln;
use super::{Failure, interrupt};
use crate::report::Output;
use kubexm_commands::reset::{self, LostCluster, ResetOptions};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm reset -f cluster.yaml
  kubexm reset -f cluster.yaml --yes")]
pub struct Reset {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// ID of the hosts' cluster, if its state directory is lost
    ///
    /// A reset refuses hosts of another cluster than that of the state directory, and its error contains the ID
    /// of their cluster. `none` stands for hosts that an earlier version of kubexm installed, which have no ID.
    #[arg(long, value_name = "ID")]
    cluster_id: Option<LostCluster>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// Removes a cluster from its hosts.
pub async fn run(arguments: &Reset, output: Output, events: &Events) -> Result<(), Failure> {
    let name = reset::cluster_name(&arguments.cluster)?;
    if !arguments.yes {
        confirm(&name)?;
    }
    let options = ResetOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options(),
        lost: arguments.cluster_id,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let report = reset::reset(&options, events, &stop).await?;
    if output != Output::Json {
        outln!(
            "{} changes were reverted on {} hosts",
            report.reverted,
            report.hosts
        );
    }
    Ok(())
}

fn confirm(name: &str) -> Result<(), Failure> {
    use std::io::{BufRead, IsTerminal, Write};
    let refuse = || {
        Failure::configuration(
            "the reset was not confirmed; nothing was touched\nhint: type the cluster's name, or pass --yes",
        )
    };
    if !std::io::stdin().is_terminal() {
        return Err(refuse());
    }
    eprint!("This removes the cluster '{name}' and all its data. Type its name: ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(Failure::configuration)?;
    if answer.trim() == name {
        Ok(())
    } else {
        Err(refuse())
    }
}
