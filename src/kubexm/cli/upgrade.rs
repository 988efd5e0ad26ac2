//! `kubexm upgrade`.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::bundle_args::ClusterArgs;
use super::confirmation::is_typed;
use super::connection::ConnectionArgs;
use super::output::outln;
use super::password::CaPassphraseArgs;
use super::{Failure, duration, explain, interrupt};
use crate::report::Output;
use kubexm_lifecycle::reset::cluster_name;
use kubexm_lifecycle::upgrade::{self, Drain, UpgradeOptions};
use kubexm_session::Stop;
use kubexm_types::event::Events;

/// Upgrade a cluster to the Kubernetes version of its cluster file
///
/// Set `kubernetes.version` to the new version and build a bundle that has it. A bundle for several minor versions needs
/// a version of each minor version in between: control planes take each of them. Workers get the last one, and an earlier
/// one only if they would be too old for the API servers.
///
/// kubexm first prints what it does on each host. It saves a snapshot of etcd, and goes on to the next node when the
/// programs of a node are healthy: control planes one after another, then workers. Pods leave a node before its programs
/// change. At the end, the cluster file is applied as `kubexm install` does.
///
/// An upgrade that was interrupted continues when the same command runs again.
///
/// With --rollback, kubexm brings the cluster back to the version before an upgrade that has not been completed. The bundle
/// must have that version. While an API server of that version still runs, or if only the patch version differs, nothing is
/// lost. Otherwise etcd goes back to the snapshot of the time before the upgrade. The plan states which of both happens.
#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm upgrade -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm upgrade -f c.yaml --bundle b.tar.zst --trust site.pub --dry-run
  kubexm upgrade -f c.yaml --bundle b.tar.zst --trust site.pub
  kubexm upgrade -f c.yaml --bundle b.tar.zst --unsigned --drain-timeout 1h
  kubexm upgrade -f c.yaml --bundle b.tar.zst --unsigned --max-unavailable 3
  kubexm upgrade -f c.yaml --bundle old.tar.zst --unsigned --rollback --dry-run
  kubexm upgrade -f c.yaml --bundle old.tar.zst --unsigned --rollback"
)]
pub struct Upgrade {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Go back to the version before an upgrade that has not been completed
    ///
    /// The bundle must have that version. If something is lost, the plan states what, and kubexm asks for the name of the
    /// cluster.
    #[arg(long)]
    rollback: bool,
    /// Do not ask for confirmation of a rollback
    #[arg(short, long, requires = "rollback")]
    yes: bool,
    /// The number of workers that change at the same time
    #[arg(long, value_name = "N", default_value = "1")]
    max_unavailable: NonZeroUsize,
    /// How long the pods of a node may take to leave it, as in 90s, 10m or 2h
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    drain_timeout: Duration,
    /// Delete pods that no controller creates again
    ///
    /// Without this option, kubexm names such pods before the upgrade and changes nothing.
    #[arg(long)]
    drain_force: bool,
    /// Delete pods although a PodDisruptionBudget forbids their eviction
    ///
    /// The application of these pods may then fail for a time.
    #[arg(long)]
    drain_disable_eviction: bool,
    /// Upgrade although no key verifies the signature of the bundle
    ///
    /// An upgrade runs the programs of its bundle as root on every host. Without a key (--trust, or
    /// spec.bundle.trust in the cluster file) this option is required.
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
}

/// Upgrades a cluster, or prints the plan.
pub async fn run(arguments: &Upgrade, output: Output, events: &Events) -> Result<(), Failure> {
    let options = UpgradeOptions {
        source: arguments.cluster.source(),
        connection: arguments.connection.options()?,
        unsigned: arguments.unsigned,
        allow_older: arguments.allow_older,
        ca_encryption: {
            let identity = arguments.ca_identity.as_deref();
            arguments
                .passphrase
                .encryption(identity, arguments.dry_run)?
        },
        drain: Drain {
            timeout: arguments.drain_timeout,
            deletes_unmanaged: arguments.drain_force,
            ignores_budgets: arguments.drain_disable_eviction,
        },
        max_unavailable: arguments.max_unavailable,
        dry_run: arguments.dry_run,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    if arguments.rollback {
        return roll_back(arguments, &options, output, events, &stop).await;
    }
    let site = (&*options.source.cluster, &options.connection);
    let report = explain::during(site, events, &stop, async |events| {
        Box::pin(upgrade::upgrade(&options, &events, &stop)).await
    })
    .await?;
    if let (Some(changed), true) = (report.changed, output != Output::Json) {
        outln!(
            "the cluster runs Kubernetes {}: {changed} steps changed a host",
            report.version
        );
    }
    Ok(())
}

async fn roll_back(
    arguments: &Upgrade,
    options: &UpgradeOptions,
    output: Output,
    events: &Events,
    stop: &Stop,
) -> Result<(), Failure> {
    let name = cluster_name(&options.source.cluster)?;
    let confirm = async || {
        let question = format!(
            "This replaces all objects of the cluster '{name}' by those of the snapshot. Type its name: "
        );
        let name = name.clone();
        // The user can stop the command instead of an answer.
        arguments.yes || std::io::stdin().is_terminal() && is_typed(question, name).await
    };
    let report = Box::pin(upgrade::rollback(options, confirm, events, stop)).await?;
    let (Some(changed), true) = (report.changed, output != Output::Json) else {
        return Ok(());
    };
    let lost = match report.restored {
        None => "nothing is lost".to_owned(),
        Some(time) => format!("its objects are those of {time}"),
    };
    outln!(
        "the cluster runs Kubernetes {} again, and {lost}: {changed} steps changed a host",
        report.version
    );
    if report.is_file_newer {
        outln!(
            "set kubernetes.version to {} in {}",
            report.version,
            options.source.cluster.display()
        );
    }
    Ok(())
}
