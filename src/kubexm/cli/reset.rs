//! `kubexm reset`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;

use super::confirmation::is_typed;
use super::connection::ConnectionArgs;
use super::output::outln;
use super::{Failure, interrupt};
use crate::report::Output;
use kubexm_lifecycle::reset::{self, LostCluster, ResetOptions};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm reset -f cluster.yaml --dry-run
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
    /// Take no snapshot of etcd first
    ///
    /// By default a reset saves a snapshot of etcd in the state directory, under archive, and stops if it cannot take one.
    /// It always saves the keys and certificates of the cluster there.
    #[arg(long)]
    no_snapshot: bool,
    /// Print what a reset deletes and reverts on each host, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// Removes a cluster from its hosts.
pub async fn run(arguments: &Reset, output: Output, events: &Events) -> Result<(), Failure> {
    let name = reset::cluster_name(&arguments.cluster)?;
    if !arguments.yes && !arguments.dry_run && !std::io::stdin().is_terminal() {
        return Err(
            Failure::configuration("the reset was not confirmed; nothing was touched")
                .hint("type the cluster's name, or pass --yes"),
        );
    }
    let options = ResetOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        lost: arguments.cluster_id,
        snapshot: !arguments.no_snapshot,
    };
    if arguments.dry_run {
        let stop = interrupt::watch(events, interrupt::STOPPING);
        return Ok(reset::reset_dry_run(&options, events, &stop).await?);
    }
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let confirm = async || {
        let question =
            format!("This removes the cluster '{name}' and all its data. Type its name: ");
        arguments.yes || is_typed(question, name.clone()).await
    };
    let report = reset::reset(&options, confirm, events, &stop).await?;
    if output != Output::Json {
        outln!(
            "{} changes were reverted on {} hosts; the archive of the cluster is {}",
            report.reverted,
            report.hosts,
            report.archive.display()
        );
    }
    Ok(())
}
