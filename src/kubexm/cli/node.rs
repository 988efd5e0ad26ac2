//! `kubexm node`: hosts that join a cluster, leave it or are replaced.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::bundle_args::AccessArgs;
use super::confirmation::is_typed;
use super::connection::ConnectionArgs;
use super::output::outln;
use super::password::CaPassphraseArgs;
use super::{Failure, duration, explain, interrupt, plan};
use crate::report::Output;
use kubexm_lifecycle::install::{CaEncryption, InstallOptions};
use kubexm_lifecycle::node::{self, AddOptions, Drain, RemoveOptions};
use kubexm_session::ClusterSource;
use kubexm_types::HostName;
use kubexm_types::event::Events;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add hosts of the cluster file to a cluster that exists
    ///
    /// Write the hosts and their roles into the cluster file first. kubexm installs these hosts, and applies the cluster file
    /// to the others: load balancers, registries, names and routes. It refuses if the cluster file has more hosts that are
    /// not in the cluster.
    ///
    /// New nodes get the Kubernetes version of the cluster, so the bundle must contain it. Before a control plane joins,
    /// kubexm removes members of etcd that have never started.
    Add(Add),
    /// Remove hosts from a running cluster
    ///
    /// Name the hosts while the cluster file still has them: kubexm needs their addresses and roles. At the end it prints
    /// what to change in the file. It first prints what it does on each host, and asks for confirmation.
    ///
    /// Pods leave the hosts. The hosts that stay get the cluster file without them. The API server of a control plane ends
    /// without failures of requests, and its member leaves etcd. kubexm then reverts all of its changes on the host, and
    /// deletes the node. It refuses a removal after which etcd would have no quorum, or that takes the only registry.
    ///
    /// A removal that was interrupted continues when the same command runs again.
    Remove(Remove),
    /// Replace hosts by new ones with the same names and addresses
    ///
    /// Removes the former hosts from the cluster, as `kubexm node remove` does, and adds the new ones. The new host must
    /// answer at the address of the former one. A host that still works is reset, and joins again.
    ///
    /// A replacement that was interrupted continues when the same command runs again.
    Replace(Replace),
}

/// A cluster, its bundle, and hosts of it.
#[derive(Debug, Args)]
struct NodeArgs {
    /// The hosts, as in spec.hosts of the cluster file
    #[arg(value_name = "NAME", required = true, value_parser = HostName::parse)]
    names: Vec<HostName>,
    /// The bundle of the cluster; the base bundles of an incremental bundle come before it
    #[arg(long, value_name = "BUNDLE", required = true)]
    bundle: Vec<PathBuf>,
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Go on although no key verifies the signature of the bundle
    ///
    /// kubexm runs the programs of the bundle as root on hosts. Without a key (--trust, or spec.bundle.trust in the cluster
    /// file) this option is required.
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

/// How hosts leave.
#[derive(Debug, Args)]
struct LeaveArgs {
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// How long the pods of a node may take to leave it, as in 90s, 10m or 2h
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    drain_timeout: Duration,
    /// Delete pods that no controller creates again
    ///
    /// Without this option, kubexm names such pods and changes nothing.
    #[arg(long)]
    drain_force: bool,
    /// Delete pods although a PodDisruptionBudget forbids their eviction
    ///
    /// The application of these pods may then fail for a time.
    #[arg(long)]
    drain_disable_eviction: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm node add <NAME>... -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm node add node6 -f c.yaml --bundle b.tar.zst --trust site.pub --dry-run
  kubexm node add node6 -f cluster.yaml --bundle bundle.tar.zst --trust site.pub
  kubexm node add cp2 cp3 -f c.yaml --bundle b.tar.zst --unsigned"
)]
pub struct Add {
    #[command(flatten)]
    node: NodeArgs,
    /// Print every step that would change a host, with the differences of files, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm node remove <NAME>... -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm node remove node4 -f c.yaml --bundle b.tar.zst --unsigned --dry-run
  kubexm node remove node4 -f c.yaml --bundle b.tar.zst --trust site.pub
  kubexm node remove cp3 --unreachable -f c.yaml --bundle b.tar.zst --unsigned"
)]
pub struct Remove {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    leave: LeaveArgs,
    /// Remove hosts that cannot be reached, without contact
    ///
    /// Nothing is reset on such a host. kubexm remembers it: an install names it. If it answers again, the same command
    /// resets it.
    #[arg(long)]
    unreachable: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm node replace <NAME>... -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm node replace cp1 -f c.yaml --bundle b.tar.zst --unsigned --dry-run
  kubexm node replace cp1 -f c.yaml --bundle b.tar.zst --trust site.pub"
)]
pub struct Replace {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    leave: LeaveArgs,
}

impl NodeArgs {
    fn source(&self) -> ClusterSource {
        ClusterSource {
            bundles: self.bundle.clone(),
            cluster: self.cluster.clone(),
            access: self.access.options(),
        }
    }

    fn ca_encryption(&self, dry_run: bool) -> Result<Option<CaEncryption>, Failure> {
        let identity = self.ca_identity.as_deref();
        self.passphrase.encryption(identity, dry_run)
    }

    fn removal(&self, leave: &LeaveArgs, unreachable: bool) -> Result<RemoveOptions, Failure> {
        Ok(RemoveOptions {
            source: self.source(),
            connection: self.connection.options()?,
            unsigned: self.unsigned,
            allow_older: self.allow_older,
            ca_encryption: self.ca_encryption(leave.dry_run)?,
            names: self.names(),
            unreachable,
            drain: Drain {
                timeout: leave.drain_timeout,
                deletes_unmanaged: leave.drain_force,
                ignores_budgets: leave.drain_disable_eviction,
            },
            dry_run: leave.dry_run,
        })
    }

    /// Returns the names without duplicates, in their order.
    fn names(&self) -> Vec<HostName> {
        let mut names: Vec<HostName> = Vec::new();
        for name in &self.names {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

impl LeaveArgs {
    /// Fails if the user can confirm nothing.
    fn check(&self) -> Result<(), Failure> {
        if self.yes || self.dry_run || std::io::stdin().is_terminal() {
            return Ok(());
        }
        Err(
            Failure::configuration("the removal was not confirmed; nothing was touched")
                .hint("type the names of the hosts, or pass --yes"),
        )
    }

    /// Asks the user to type the names of the hosts, after the plan was printed.
    async fn confirm(&self, names: &[HostName]) -> bool {
        let names: Vec<&str> = names.iter().map(HostName::as_str).collect();
        let expected = names.join(" ");
        let question =
            format!("This removes {expected} from the cluster. Type '{expected}' to go on: ");
        self.yes || is_typed(question, expected).await
    }
}

/// Runs one of the commands.
pub async fn run(command: Command, output: Output, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Add(arguments) => add(&arguments, output, events).await,
        Command::Remove(arguments) => remove(&arguments, output, events).await,
        Command::Replace(arguments) => Box::pin(replace(&arguments, output, events)).await,
    }
}

async fn add(arguments: &Add, output: Output, events: &Events) -> Result<(), Failure> {
    let node = &arguments.node;
    let options = AddOptions {
        install: InstallOptions {
            source: node.source(),
            connection: node.connection.options()?,
            unsigned: node.unsigned,
            allow_failed: false,
            allow_older: node.allow_older,
            ca_encryption: node
                .passphrase
                .comparing_if_dry(node.ca_identity.as_deref(), arguments.dry_run)?,
            admitted: None,
        },
        names: node.names(),
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    if arguments.dry_run {
        let found = node::add_dry_run(&options, events, &stop).await?;
        found.report_findings(events)?;
        events.note("dry run: nothing was touched");
        let Some(diff) = &found.diff else {
            return Ok(());
        };
        return plan::print_diff(diff, output);
    }
    let site = (
        &*options.install.source.cluster,
        &options.install.connection,
    );
    let report = explain::during(site, events, &stop, async |events| {
        node::add(&options, &events, &stop).await
    })
    .await?;
    if output != Output::Json {
        outln!(
            "{} in the cluster: {} steps changed a host",
            are(&options.names),
            report.changed
        );
    }
    Ok(())
}

async fn remove(arguments: &Remove, output: Output, events: &Events) -> Result<(), Failure> {
    let (node, leave) = (&arguments.node, &arguments.leave);
    leave.check()?;
    let options = node.removal(leave, arguments.unreachable)?;
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let confirm = async || leave.confirm(&options.names).await;
    let report = node::remove(&options, confirm, events, &stop).await?;
    if let (Some(changed), true) = (report.changed, output != Output::Json) {
        outln!(
            "{} not in the cluster any more: {changed} changes",
            are(&options.names)
        );
    }
    Ok(())
}

async fn replace(arguments: &Replace, output: Output, events: &Events) -> Result<(), Failure> {
    let (node, leave) = (&arguments.node, &arguments.leave);
    leave.check()?;
    let options = node.removal(leave, false)?;
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let confirm = async || leave.confirm(&options.names).await;
    let site = (&*options.source.cluster, &options.connection);
    let report = explain::during(site, events, &stop, async |events| {
        node::replace(&options, confirm, &events, &stop).await
    })
    .await?;
    if let (Some(changed), true) = (report.changed, output != Output::Json) {
        outln!(
            "{} in the cluster again: {changed} changes",
            are(&options.names)
        );
    }
    Ok(())
}

/// Returns names with a verb.
fn are(names: &[HostName]) -> String {
    let all: Vec<&str> = names.iter().map(HostName::as_str).collect();
    let verb = if all.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", all.join(", "))
}
