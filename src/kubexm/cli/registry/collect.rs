//! `kubexm registry gc`.

use std::io::IsTerminal;

use clap::Args;

use super::change::{ClusterArgs, print};
use crate::cli::confirmation::is_typed;
use crate::cli::{Failure, interrupt};
use crate::report::Output;
use kubexm_operate::registry::{self, CollectOptions};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm registry gc -f cluster.yaml --dry-run
  kubexm registry gc -f cluster.yaml
  kubexm registry gc -f cluster.yaml --unused --yes")]
pub struct Collect {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Also remove images of former versions of Kubernetes and of its add-ons
    ///
    /// Images of users stay, whether something uses them or not.
    #[arg(long)]
    unused: bool,
    /// Do not ask for confirmation of --unused
    #[arg(short, long, requires = "unused")]
    yes: bool,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Collect {
    /// Fails if the user can confirm nothing.
    fn check(&self) -> Result<(), Failure> {
        if !self.unused || self.yes || self.dry_run || std::io::stdin().is_terminal() {
            return Ok(());
        }
        Err(Failure::configuration(
            "the removal of unused images was not confirmed; nothing was touched",
        )
        .hint("look at it with --dry-run, and pass --yes"))
    }

    async fn confirm(&self) -> bool {
        let question = "This removes the images from the registries. Type 'yes' to go on: ";
        self.yes || is_typed(question.to_owned(), "yes".to_owned()).await
    }
}

/// Removes what nothing needs.
pub async fn run(arguments: &Collect, output: Output, events: &Events) -> Result<(), Failure> {
    arguments.check()?;
    let options = CollectOptions {
        cluster: arguments.cluster.cluster.clone(),
        connection: arguments.cluster.connection.options()?,
        unused: arguments.unused,
        dry_run: arguments.dry_run,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let confirm = async || arguments.confirm().await;
    let report = registry::collect(&options, confirm, events, &stop).await?;
    print(
        &report,
        output,
        "the registries have no blob that no image needs",
    );
    Ok(())
}
