//! `kubexm app`: the applications of a running cluster.

mod apply;
mod diff;
mod list;
mod remove;
mod values;

use clap::Subcommand;

use super::Failure;
use crate::report::Output;
use kubexm_types::event::Events;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Install the applications of a cluster file, or change them
    ///
    /// Applies spec.applications of the cluster file with charts, manifests and images of the bundle, which may contain
    /// applications alone. It sends the images to the registries first. Each application is a release of Helm: it gets another
    /// revision if its chart or its values have changed, and is left as it is otherwise.
    /// Applications of which the bundle does not have everything stay, and are named. The command refuses a bundle with none of the
    /// applications, or with one that needs an application that neither the bundle nor the cluster has. A release that
    /// `helm upgrade` or `helm rollback` changed gets the values of the cluster file again, with a warning.
    ///
    /// `kubexm install` applies the applications, too, after everything else. A command that was interrupted continues when it
    /// runs again.
    Apply(apply::Apply),
    /// Print which objects of applications the next apply would change
    ///
    /// Renders the charts of the cluster file by the helm of the bundle, in a sandbox of this machine, and compares their objects
    /// with those of the releases in the cluster. It changes nothing. Contents of Secrets, values that are secret and what may be a
    /// secret are masked. Objects of hooks and definitions of custom resources in `crds` are not compared. The exit code is 6 if
    /// the next `app apply` or install changes an application. It also says which releases were changed by helm since kubexm
    /// applied them.
    Diff(diff::Diff),
    /// List the applications of a running cluster
    ///
    /// Lists the applications of the cluster file, then other releases that kubexm created. --all adds those that other programs
    /// created with Helm.
    List(list::List),
    /// Remove an application from a running cluster
    ///
    /// Removes the release of Helm, with its objects and its history. The cluster file must not have the application any more.
    /// Definitions of custom resources stay, and so do the images in the registries until `kubexm registry remove`.
    Remove(remove::Remove),
    /// Print the values of an application
    ///
    /// Merges the values of the chart in the bundle with those of the cluster file, as an install does. `hidden` takes the place of
    /// secretValues, and values of encrypted files are left out. The command connects to no host.
    Values(values::Values),
}

impl Command {
    /// Returns whether it prints events.
    pub fn emits_events(&self) -> bool {
        matches!(self, Self::Apply(_) | Self::Remove(_))
    }
}

/// Runs one of the commands.
pub async fn run(command: Command, output: Output, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Apply(arguments) => apply::run(&arguments, output, events).await,
        Command::Diff(arguments) => diff::run(&arguments, output, events).await,
        Command::List(arguments) => list::run(&arguments, output, events).await,
        Command::Remove(arguments) => remove::run(&arguments, output, events).await,
        Command::Values(arguments) => values::run(&arguments, output, events),
    }
}
