//! `kubexm backup restore`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::bundle_args::AccessArgs;
use crate::cli::confirmation::is_typed;
use crate::cli::connection::ConnectionArgs;
use crate::cli::output::outln;
use crate::cli::password::{BackupIdentityArgs, CaPassphraseArgs};
use crate::cli::{Failure, explain, interrupt};
use crate::report::Output;
use kubexm_lifecycle::reset::cluster_name;
use kubexm_lifecycle::restore::{self, RestoreOptions};
use kubexm_safekeeping::backup::check_file;
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm backup restore <BACKUP> -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm backup restore BACKUP -f c.yaml --bundle b.zst --identity key --dry-run
  kubexm backup restore BACKUP -f c.yaml --bundle b.zst --identity key
  kubexm backup restore BACKUP -f c.yaml --bundle b.zst --trust site.pub"
)]
pub struct Restore {
    /// The backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    identity: BackupIdentityArgs,
    /// The bundle of the cluster; repeatable, with the base bundles of an incremental bundle before it
    ///
    /// Members of etcd run its program etcdutl as root, and hosts without a cluster are installed from it.
    #[arg(long = "bundle", value_name = "BUNDLE", required = true)]
    bundles: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Install from the bundle although no key verifies its signature
    #[arg(long, conflicts_with = "trust")]
    unsigned: bool,
    /// Accept a bundle that is older than the newest one that the cluster was installed from
    #[arg(long)]
    allow_older: bool,
    /// Accept a backup of which nothing shows that a run with this state directory made it
    ///
    /// A backup is signed with a key of the state directory. Earlier versions signed none.
    #[arg(long)]
    accept_unknown_origin: bool,
    /// Give new hosts the authorities of the backup, although a rotation has replaced them since
    ///
    /// The keys of before the rotation are then valid again, until the next one.
    #[arg(long)]
    accept_older_authorities: bool,
    /// What becomes of hosts that the backup has and the cluster file has not, if new hosts are installed
    ///
    /// With `remove`, the cluster forgets their nodes and pods.
    #[arg(long, value_enum, value_name = "WHAT")]
    other_hosts: Option<OtherHosts>,
    /// The identity file of age that encrypts the secrets of the state directory
    #[arg(long, value_name = "FILE", env = "KUBEXM_CA_IDENTITY")]
    ca_identity: Option<PathBuf>,
    #[command(flatten)]
    ca_passphrase: CaPassphraseArgs,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OtherHosts {
    /// They are gone, or have other names
    Remove,
    /// They still run, and join again later
    Keep,
}

/// Restores a cluster, or prints the plan.
pub async fn run(arguments: &Restore, output: Output, events: &Events) -> Result<(), Failure> {
    let name = cluster_name(&arguments.cluster)?;
    if !arguments.yes && !arguments.dry_run && !std::io::stdin().is_terminal() {
        return Err(
            Failure::configuration("the restore was not confirmed; nothing was touched")
                .hint("type the cluster's name, or pass --yes"),
        );
    }
    check_file(&arguments.backup)?;
    let options = RestoreOptions {
        backup: arguments.backup.clone(),
        identity: arguments.identity.required()?,
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        bundles: arguments.bundles.clone(),
        access: arguments.access.options(),
        unsigned: arguments.unsigned,
        allow_older: arguments.allow_older,
        ca_encryption: arguments
            .ca_passphrase
            .encryption(arguments.ca_identity.as_deref(), arguments.dry_run)?,
        unknown_origin: arguments.accept_unknown_origin,
        older_authorities: arguments.accept_older_authorities,
        other_hosts: arguments.other_hosts.map(|what| match what {
            OtherHosts::Remove => restore::OtherHosts::Remove,
            OtherHosts::Keep => restore::OtherHosts::Keep,
        }),
        dry_run: arguments.dry_run,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let confirm = async || {
        let question = format!(
            "This replaces all objects of the cluster '{name}' by those of the backup. Type its name: "
        );
        arguments.yes || is_typed(question, name.clone()).await
    };
    let site = (&*options.cluster, &options.connection);
    let report = explain::during(site, events, &stop, async |events| {
        restore::restore(&options, confirm, &events, &stop).await
    })
    .await?;
    if let (Some(former), true) = (&report.former, output != Output::Json) {
        outln!(
            "the cluster has the state of {}; the former data of etcd is {former} on its hosts, and you can delete it",
            report.created
        );
    }
    Ok(())
}
