//! `kubexm registry move`.

use std::path::PathBuf;

use clap::Args;

use super::change::{ClusterArgs, print};
use crate::cli::bundle_args::AccessArgs;
use crate::cli::password::CaPassphraseArgs;
use crate::cli::{Failure, interrupt};
use crate::report::Output;
use kubexm_operate::registry::{self, MoveOptions};
use kubexm_types::HostName;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm registry move --to <HOST> -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm registry move --to node3 -f c.yaml --bundle b.zst --unsigned --dry-run
  kubexm registry move --to node3,node4 -f c.yaml --bundle b.zst --unsigned
  kubexm registry move --from node1 --to node3 -f c.yaml --bundle b --trust k
  kubexm registry move --cancel -f c.yaml --bundle b.zst --trust k"
)]
pub struct Move {
    /// The hosts that get a registry, separated by commas
    #[arg(long, value_name = "HOST", required_unless_present = "cancel", value_delimiter = ',', value_parser = HostName::parse)]
    to: Vec<HostName>,
    /// The hosts that lose their registry; without it, all that have one
    #[arg(long, value_name = "HOST", value_delimiter = ',', value_parser = HostName::parse)]
    from: Vec<HostName>,
    /// Undo a move that has begun
    ///
    /// Every host uses the former registries alone again, and kubexm reverts its changes for the new ones. It is not possible
    /// after the former registries have begun to end.
    #[arg(long, conflicts_with_all = ["to", "from"])]
    cancel: bool,
    /// The bundle of the cluster; the base bundles of an incremental bundle come before it
    #[arg(long, value_name = "BUNDLE", required = true)]
    bundle: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Go on although no key verifies the signature of the bundle
    ///
    /// kubexm runs the programs of the bundle on hosts. Without a key (--trust, or spec.bundle.trust in the cluster file) this
    /// option is required.
    #[arg(long, conflicts_with = "trust")]
    unsigned: bool,
    /// Accept a bundle that is older than the newest one that the cluster was installed from
    #[arg(long)]
    allow_older: bool,
    /// The identity file of age that encrypts the secrets of the state directory
    #[arg(long, value_name = "FILE", env = "KUBEXM_CA_IDENTITY")]
    ca_identity: Option<PathBuf>,
    #[command(flatten)]
    passphrase: CaPassphraseArgs,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Moves the registries.
pub async fn run(arguments: &Move, output: Output, events: &Events) -> Result<(), Failure> {
    let identity = arguments.ca_identity.as_deref();
    let options = MoveOptions {
        source: arguments
            .cluster
            .source(&arguments.bundle, &arguments.access),
        connection: arguments.cluster.connection.options()?,
        unsigned: arguments.unsigned,
        allow_older: arguments.allow_older,
        ca_encryption: arguments
            .passphrase
            .encryption(identity, arguments.dry_run)?,
        to: arguments.to.clone(),
        from: arguments.from.clone(),
        cancel: arguments.cancel,
        dry_run: arguments.dry_run,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let report = Box::pin(registry::relocate(&options, events, &stop)).await?;
    let done = if arguments.cancel {
        "the move was cancelled"
    } else {
        "the registries have moved"
    };
    print(&report, output, done);
    Ok(())
}
