//! `kubexm support-bundle`.

use kubexm_types::ErrorKind;
use std::path::PathBuf;

use clap::Args;

use super::bundle_args::AccessArgs;
use super::connection::ConnectionArgs;
use super::output::outln;
use super::{Failure, interrupt, output, version};
use crate::report::Output;
use kubexm_diagnose::status::BundlesToCompare;
use kubexm_diagnose::support_bundle::{self, SupportOptions};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm support-bundle -f cluster.yaml
  kubexm support-bundle -f cluster.yaml -o support.tar.zst --lines 10000
  kubexm support-bundle -f cluster.yaml --bundle bundle.tar.zst")]
pub struct SupportBundle {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    /// The archive; default: support-FILE-TIME.tar.zst in this directory; FILE is the name of the cluster file
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Maximum number of lines of each unit and container
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=20000))]
    lines: u32,
    /// Also add the plan of an install from this bundle
    #[arg(long, value_name = "BUNDLE")]
    bundle: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Writes the archive, and prints its name and what is missing in it.
///
/// # Errors
/// Fails if the archive cannot be written; with the exit code 4 if no host answers. The archive then has what this machine
/// knows. Hosts that do not answer are missing in it.
pub async fn run(
    arguments: &SupportBundle,
    format: Output,
    events: &Events,
) -> Result<(), Failure> {
    let file = arguments.out.clone();
    let options = SupportOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        output: file.unwrap_or_else(|| support_bundle::default_name(&arguments.cluster)),
        lines: arguments.lines,
        plan: (!arguments.bundle.is_empty()).then(|| BundlesToCompare {
            bundles: arguments.bundle.clone(),
            access: arguments.access.options(),
        }),
        version: version::text().to_owned(),
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let written = support_bundle::collect(&options, events, &stop).await?;
    match format {
        Output::Json => output::document("SupportBundle", &written)?,
        Output::Auto | Output::Plain => print(&written),
    }
    if written.hosts.is_empty() {
        Err(Failure::found(ErrorKind::Host))
    } else {
        Ok(())
    }
}

/// Prints for people what was written.
fn print(written: &support_bundle::SupportBundle) {
    let kib = written.size.div_ceil(1024);
    outln!(
        "{}: {} files of {} hosts, {kib} KiB",
        written.path.display(),
        written.files,
        written.hosts.len()
    );
    for missing in &written.missing {
        outln!("missing: {missing}");
    }
    outln!(
        "It has no keys, tokens and passwords that kubexm knows of. Look through it before you give it away."
    );
}
