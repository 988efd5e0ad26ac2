//! `kubexm conformance`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::bundle_args::ClusterArgs;
use super::connection::ConnectionArgs;
use super::output::outln;
use super::{Failure, interrupt, output};
use crate::report::Output;
use kubexm_operate::conformance::{self, ConformanceOptions, ConformanceReport};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm conformance bundle.tar.zst -f cluster.yaml --trust site.pub
  kubexm conformance bundle.tar.zst -f cluster.yaml --unsigned --focus DNS")]
pub struct Conformance {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Run programs of a bundle whose signature is not verified
    #[arg(long, conflicts_with = "trust")]
    unsigned: bool,
    /// Run only tests whose names match this regular expression of Go
    #[arg(long, value_name = "EXPRESSION")]
    focus: Option<String>,
    /// Leave out tests whose names match this regular expression of Go
    #[arg(long, value_name = "EXPRESSION")]
    skip: Option<String>,
    /// How many tests run at the same time
    ///
    /// Tests that disturb others run alone, after these.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Maximum duration of each of the two parts, in minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=1440))]
    timeout: u64,
    /// The directory for reports, by default one in the state directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Runs the tests and prints those that failed.
///
/// # Errors
/// Fails with the exit code 7 if a test failed.
pub async fn run(arguments: &Conformance, format: Output, events: &Events) -> Result<(), Failure> {
    let options = ConformanceOptions {
        source: arguments.cluster.source(),
        connection: arguments.connection.options()?,
        unsigned: arguments.unsigned,
        focus: arguments.focus.clone(),
        skip: arguments.skip.clone(),
        parallel: arguments.parallel,
        limit: Duration::from_secs(arguments.timeout * 60),
        report: arguments.report.clone(),
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_TESTS);
    let report = conformance::conformance(&options, events, &stop).await?;
    match format {
        Output::Json => output::document("ConformanceReport", &report)?,
        Output::Auto | Output::Plain => print(&report),
    }
    if report.failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::tests())
    }
}

fn print(report: &ConformanceReport) {
    for test in &report.failed {
        outln!("FAILED {}", test.name);
        for line in test.message.lines().take(3) {
            outln!("       {line}");
        }
    }
    outln!(
        "conformance tests of Kubernetes {}: {} passed, {} failed in {} minutes; reports: {}",
        report.kubernetes,
        report.passed,
        report.failed.len(),
        report.seconds.div_ceil(60),
        report.report.display()
    );
}
