//! `kubexm status`: the state of a cluster.

mod applications;
#[cfg(test)]
pub mod example;
mod table;
mod text;

use kubexm_types::ErrorKind;
use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;

use super::bundle_args::AccessArgs;
use super::connection::ConnectionArgs;
use super::password::CaPassphraseArgs;
use super::{Failure, interrupt, output};
use crate::report::Output;
use kubexm_diagnose::status::{self, BundlesToCompare, FixOptions, StatusOptions};
use kubexm_lifecycle::install::CaEncryption;
use kubexm_session::CommandLine;
use kubexm_session::{ClusterSource, Stop};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm status -f cluster.yaml
  kubexm status -f cluster.yaml --output json
  kubexm status -f cluster.yaml --diff --bundle bundle.tar.zst
  kubexm status -f cluster.yaml --fix --bundle bundle.tar.zst --dry-run")]
pub struct Status {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Also compare the hosts with the plan of an install from --bundle, and change nothing
    ///
    /// Runs the checks of `kubexm plan --diff`. A host that differs is a problem, which `--fix` removes.
    #[arg(long, requires = "bundle")]
    diff: bool,
    /// Remove the differences to the plan of an install from --bundle, then print the state with --diff
    ///
    /// Prints the steps of each host first. They are steps of an install, in its order, and only those that differ, with the
    /// restarts of units that read a changed file. No host joins the cluster. What an install does not change either is
    /// named and stays as it is. The bundle must be the one of the last install or upgrade.
    ///
    /// A fix that was interrupted continues when the same command runs again.
    #[arg(long, requires = "bundle")]
    fix: bool,
    /// Print the steps of --fix and change nothing; the exit code is 6 if there is one
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// The bundle for --diff or --fix; the base bundles of an incremental bundle come before it
    #[arg(long, value_name = "BUNDLE")]
    bundle: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Fix hosts although no key verifies the signature of the bundle
    #[arg(long, requires = "fix", conflicts_with = "trust")]
    unsigned: bool,
    /// The identity file of age that encrypts the secrets of the state directory, for --diff and --fix
    #[arg(long, value_name = "FILE", env = "KUBEXM_CA_IDENTITY")]
    ca_identity: Option<PathBuf>,
    #[command(flatten)]
    passphrase: CaPassphraseArgs,
}

impl Status {
    /// Returns what encrypts the keys of CAs; `None` if the command reads none.
    fn ca_encryption(&self) -> Result<Option<CaEncryption>, Failure> {
        let identity = self.ca_identity.as_deref();
        if !self.fix && !self.diff {
            return Ok(None);
        }
        let only_compares = !self.fix || self.dry_run;
        self.passphrase.comparing_if_dry(identity, only_compares)
    }

    /// Removes the differences.
    ///
    /// # Errors
    /// Fails with the exit code 6 if a dry run found some.
    async fn fix(
        &self,
        ca_encryption: Option<CaEncryption>,
        events: &Events,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let options = FixOptions {
            source: ClusterSource {
                bundles: self.bundle.clone(),
                cluster: self.cluster.clone(),
                access: self.access.options(),
            },
            connection: self.connection.options()?,
            unsigned: self.unsigned,
            ca_encryption,
            dry_run: self.dry_run,
        };
        let report = status::fix(&options, events, stop).await?;
        if report.has_differences {
            Err(Failure::found(ErrorKind::Changes))
        } else {
            Ok(())
        }
    }
}

/// Prints the state.
///
/// # Errors
/// Fails with the exit code 9 if something needs attention, and with 4 if only hosts cannot be reached.
pub async fn run(arguments: &Status, format: Output, events: &Events) -> Result<(), Failure> {
    if arguments.bundle.is_empty() == (arguments.diff || arguments.fix) {
        return Err(
            Failure::configuration("--bundle is for --diff and --fix").hint("pass one of them")
        );
    }
    // A file descriptor gives a passphrase once, and a user types it once.
    let ca_encryption = arguments.ca_encryption()?;
    if arguments.fix {
        let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
        arguments.fix(ca_encryption.clone(), events, &stop).await?;
        if arguments.dry_run {
            return Ok(());
        }
    }
    let options = StatusOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        diff: (arguments.diff || arguments.fix).then(|| BundlesToCompare {
            bundles: arguments.bundle.clone(),
            access: arguments.access.options(),
        }),
        ca_encryption,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let report = status::status(&options, events, &stop).await?;
    match format {
        Output::Json => output::document("StatusReport", &report)?,
        Output::Auto | Output::Plain => {
            let line = CommandLine::new(&options.cluster, &options.connection);
            // A program that reads the names needs all of their characters.
            let columns = std::io::stdout().is_terminal().then_some(table::COLUMNS);
            output::text(&text::of(&report, &line, columns));
        }
    }
    match (report.has_problems(), report.has_unreachable()) {
        (true, _) => Err(Failure::found(ErrorKind::Attention)),
        (false, true) => Err(Failure::found(ErrorKind::Host)),
        (false, false) => Ok(()),
    }
}
