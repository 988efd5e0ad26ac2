//! `kubexm install`.

use std::path::PathBuf;

use clap::Args;

use super::bundle_args::ClusterArgs;
use super::connection::ConnectionArgs;
use super::output::outln;
use super::password::CaPassphraseArgs;
use super::{Failure, explain, interrupt, offers, output, plan};
use crate::report::Output;
use kubexm_lifecycle::install::{self, InstallOptions, InstallReport};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm install -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm install -f c.yaml --bundle b.tar.zst --trust site.pub --dry-run
  kubexm install -f c.yaml --bundle b.tar.zst --trust site.pub
  kubexm install -f c.yaml --bundle base.tar.zst --bundle new.tar.zst --unsigned
  kubexm install -f c.yaml --bundle b.tar.zst --unsigned"
)]
pub struct Install {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Check the hosts and print what an install would do, and change nothing
    ///
    /// For a new cluster this is the plan. For an installed cluster it is every step that would change a host, with the
    /// differences of files, and the exit code is 6 if there is one.
    #[arg(long)]
    dry_run: bool,
    /// Install although no key verifies the signature of the bundle
    ///
    /// An install runs the programs of its bundle as root on every host. Without a key (--trust, or
    /// spec.bundle.trust in the cluster file) this option is required.
    #[arg(long, conflicts_with = "trust")]
    unsigned: bool,
    /// Install the cluster without workers that fail or cannot be reached
    ///
    /// kubexm names these workers at the end, and the exit code is 4. The same install adds them later. Hosts with
    /// another role than worker are never left out.
    #[arg(long, conflicts_with = "dry_run")]
    allow_failed: bool,
    /// Accept a bundle that is older than the newest one that the cluster was installed from
    ///
    /// The state directory records the sequence number in the signature of the newest bundle. The option also
    /// accepts another bundle with the same number.
    #[arg(long)]
    allow_older: bool,
    /// Encrypt the secrets of the state directory with this identity file of age
    ///
    /// `age-keygen` writes such a file. Files in clear text are replaced by encrypted ones. From then on
    /// commands that use a secret require the option. `/dev/fd/3` reads the identity from a file descriptor.
    #[arg(long, value_name = "FILE", env = "KUBEXM_CA_IDENTITY")]
    ca_identity: Option<PathBuf>,
    #[command(flatten)]
    passphrase: CaPassphraseArgs,
}

/// Installs a cluster, or prints what an install would do.
pub async fn run(arguments: &Install, output: Output, events: &Events) -> Result<(), Failure> {
    let options = InstallOptions {
        source: arguments.cluster.source(),
        connection: arguments.connection.options()?,
        unsigned: arguments.unsigned,
        allow_failed: arguments.allow_failed,
        allow_older: arguments.allow_older,
        admitted: None,
        ca_encryption: arguments
            .passphrase
            .comparing_if_dry(arguments.ca_identity.as_deref(), arguments.dry_run)?,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    if arguments.dry_run {
        let found = install::dry_run(&options, events, &stop).await?;
        found.report_findings(events)?;
        events.note("dry run: nothing was touched");
        if let Some(diff) = &found.diff {
            return plan::report_diff(diff, output);
        }
        match output {
            Output::Json => found.planned.emit(events)?,
            Output::Auto | Output::Plain => output::text(&found.planned.text()?),
        }
        return Ok(());
    }
    let site = (&*options.source.cluster, &options.connection);
    let report = explain::during(site, events, &stop, async |events| {
        install::install(&options, &events, &stop).await
    })
    .await?;
    if output != Output::Json {
        print(&report, &options);
    }
    Ok(())
}

fn print(report: &InstallReport, options: &InstallOptions) {
    let (unchanged, ran) = (report.unchanged, report.ran);
    match report.changed {
        0 => outln!("nothing to change: all {unchanged} checks found the desired state"),
        changed => outln!("{changed} steps changed a host, {unchanged} found the desired state"),
    }
    outln!("{ran} actions ran");
    let total = ("all", report.total);
    for (phase, time) in report.phases.iter().chain([&total]) {
        outln!("  {phase:20} {:>6.1} s", time.as_secs_f64());
    }
    let kubeconfig = report.kubeconfig.display();
    outln!("kubeconfig: {kubeconfig}");
    if let Some(offers) = &report.offers {
        outln!("{}", offers::text(offers));
    }
    outln!("next steps:");
    if let Some(bundle) = options.source.bundles.last() {
        outln!("  kubexm bundle extract {} kubectl", bundle.display());
    }
    outln!("  ./kubectl --kubeconfig {kubeconfig} get nodes");
}
