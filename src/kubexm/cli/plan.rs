//! `kubexm plan`: what a first install would do, or what an install would change now.

use kubexm_types::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::bundle_args::ClusterArgs;
use super::connection::ConnectionArgs;
use super::output::outln;
use super::password::CaPassphraseArgs;
use super::{Failure, interrupt, output};
use crate::report::Output;
use kubexm_lifecycle::install::InstallOptions;
use kubexm_lifecycle::plan::{self, InstallDiff, Planned};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm plan -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm plan -f c.yaml --bundle b.tar.zst
  kubexm plan -f c.yaml --bundle b.tar.zst -o plan.json
  kubexm plan -f c.yaml --bundle b.tar.zst --diff"
)]
pub struct Plan {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Write the plan as JSON, without secrets, instead of printing it
    #[arg(short, long, value_name = "FILE", conflicts_with = "diff")]
    out: Option<PathBuf>,
    /// Connect to the hosts and print what an install would change, and change nothing
    ///
    /// Runs the check of every step that ensures a state, and nothing else. A step whose check needs a value
    /// of another task is listed as "depends on task". Certificates come from the state directory. If it
    /// has none, files with certificates differ. If its secrets are encrypted, the comparison needs --ca-identity or the
    /// passphrase. Values that may be secrets are masked. Of applications, it prints the objects that change, as `app diff` does.
    /// The exit code is 6 if an install would change a host.
    #[arg(long)]
    diff: bool,
    /// The identity file of age that encrypts the secrets of the state directory, for --diff
    #[arg(long, value_name = "FILE", env = "KUBEXM_CA_IDENTITY")]
    ca_identity: Option<PathBuf>,
    #[command(flatten)]
    passphrase: CaPassphraseArgs,
}

/// Prints the plan, writes it as JSON, or compares it with the hosts.
pub async fn run(arguments: &Plan, output: Output, events: &Events) -> Result<(), Failure> {
    if arguments.diff {
        return diff(arguments, output, events).await;
    }
    let planned = plan::plan(&arguments.cluster.source(), events)?;
    match (&arguments.out, output) {
        (Some(path), _) => save(&planned, path, output)?,
        (None, Output::Json) => output::document("Plan", &planned.document()?)?,
        (None, Output::Auto | Output::Plain) => output::text(&planned.text()?),
    }
    Ok(())
}

/// A plan that was written to a file.
#[derive(Serialize)]
pub struct PlanFile<'a> {
    /// The file.
    pub path: &'a Path,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of hosts.
    pub hosts: usize,
}

fn save(planned: &Planned, path: &Path, output: Output) -> Result<(), Failure> {
    let document = planned.document()?;
    plan::save(path, &document)?;
    let file = PlanFile {
        path,
        tasks: document.tasks.len(),
        hosts: document.hosts.len(),
    };
    if output == Output::Json {
        return output::document("PlanFile", &file);
    }
    outln!(
        "{}: {} tasks on {} hosts",
        path.display(),
        file.tasks,
        file.hosts
    );
    Ok(())
}

async fn diff(arguments: &Plan, output: Output, events: &Events) -> Result<(), Failure> {
    let options = InstallOptions {
        source: arguments.cluster.source(),
        connection: arguments.connection.options()?,
        // The comparison runs nothing of the bundle on a host.
        unsigned: true,
        allow_failed: false,
        allow_older: true,
        ca_encryption: arguments
            .passphrase
            .decryption(arguments.ca_identity.as_deref())?,
        admitted: None,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let found = plan::diff(&options, events, &stop).await?;
    report_diff(&found, output)
}

/// Prints a comparison.
///
/// # Errors
/// A host could not be compared to the end.
pub fn print_diff(found: &InstallDiff, output: Output) -> Result<(), Failure> {
    match output {
        Output::Json => output::document("PlanDiff", found)?,
        Output::Auto | Output::Plain => output::text(&found.to_string()),
    }
    Ok(plan::check_reachable(&found.plan)?)
}

/// Prints a comparison as the result of a command.
///
/// # Errors
/// Fails with the exit code 6 if an install would change a host.
pub fn report_diff(found: &InstallDiff, output: Output) -> Result<(), Failure> {
    print_diff(found, output)?;
    if found.plan.has_changes() {
        Err(Failure::found(ErrorKind::Changes))
    } else {
        Ok(())
    }
}
