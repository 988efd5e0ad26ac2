//! `kubexm registry`: the images in the registries of a cluster.

pub mod add;
pub mod change;
mod collect;
#[cfg(test)]
pub mod example;
mod list;
mod relocate;
mod remove;
mod seed;
mod sync;

use clap::Subcommand;

use super::Failure;
use crate::report::Output;
use kubexm_types::event::Events;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the images in the registries of a cluster, and which of them are in use
    ///
    /// Reads the registries that kubexm runs, asks an API server for images that pods and workloads name, and reads the
    /// images of static pods and sandboxes on each node. It changes nothing. Without an API server it lists the images, and says
    /// that their use is unknown.
    ///
    /// HOSTS is the number of registries with the whole image. USE is the number of pods, workloads and nodes that use it.
    /// Below the table are the images that are not equal in all registries. The exit code is 9 if there are some. It is 4 if
    /// the only problem is a host that cannot be reached.
    List(list::List),
    /// Add images of a bundle to the registries of a running cluster
    ///
    /// Sends each registry the blobs that it does not have, and then the names. The bundle is verified as by an install, and may
    /// contain only applications. Nodes then pull images of further public registries from the cluster's registries, too.
    ///
    /// If a registry or a node cannot be reached, the others get the images and the settings, and the exit code is 4: the same
    /// command completes it later. A command that was interrupted continues when it runs again, too.
    Add(add::Add),
    /// Give each registry of a cluster the images that the others have
    ///
    /// Compares the registries, and copies what one of them does not have from the others, through this machine. Each host compares
    /// every blob with its digest. If a name means different images, the command names them and changes nothing, until --from
    /// names the host that is right.
    Sync(sync::Sync),
    /// Remove images from the registries of a running cluster
    ///
    /// Removes names and manifests from all registries, with the signatures that belong to them. The blobs stay until
    /// `kubexm registry gc`. Images that pods, workloads or nodes use are refused. All registries must be reachable.
    Remove(remove::Remove),
    /// Remove the blobs that no image in a registry needs
    ///
    /// Works on one registry after another, while they serve pulls. A blob stays if a manifest of any repository contains its
    /// digest, also that of another platform or of a signature.
    ///
    /// With --unused, it first removes images of former versions of Kubernetes and of its add-ons, which no pod, workload or
    /// node uses. It lists them, and asks.
    Gc(collect::Collect),
    /// Move the registries of a running cluster to other hosts
    ///
    /// Copies all images, also those that `kubexm registry add` added, and runs registries on the new hosts. Then each host,
    /// one after another, uses former and new registries, and afterwards the new ones alone, so that pulls go on. At the end
    /// kubexm reverts its changes for the former registries, and prints what to change in the cluster file.
    ///
    /// Container runtimes other than containerd and Docker restart when their registries change. A move that was interrupted
    /// continues when the same command runs again. Until a former registry ends, --cancel undoes the move instead. Other commands
    /// that change the cluster wait until the move is complete and the cluster file names the new registries.
    Move(relocate::Move),
    /// Push the images of a bundle to the external registry of a cluster file
    ///
    /// The cluster file must have `registry.type: external`. Its hosts pull every image from there.
    Seed(seed::Seed),
}

impl Command {
    /// Returns whether the command reports its progress by events.
    pub fn emits_events(&self) -> bool {
        !matches!(self, Self::List(_))
    }
}

/// Runs one of the commands.
pub async fn run(command: Command, output: Output, events: &Events) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => list::run(&arguments, output, events).await,
        Command::Add(arguments) => add::run(&arguments, output, events).await,
        Command::Sync(arguments) => sync::run(&arguments, output, events).await,
        Command::Remove(arguments) => remove::run(&arguments, output, events).await,
        Command::Gc(arguments) => collect::run(&arguments, output, events).await,
        Command::Move(arguments) => relocate::run(&arguments, output, events).await,
        Command::Seed(arguments) => seed::run(arguments, events).await,
    }
}
