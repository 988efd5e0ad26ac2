//! `kubexm conformance`.

use kubexm_types::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::bundle_args::ClusterArgs;
use super::connection::ConnectionArgs;
use super::output::outln;
use super::{Failure, duration, interrupt, output};
use crate::report::Output;
use kubexm_operate::conformance::{self, ConformanceOptions, ConformanceReport};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(
    override_usage = "kubexm conformance -f <CLUSTER> --bundle <BUNDLE> [OPTIONS]",
    after_long_help = "Examples:
  kubexm conformance -f c.yaml --bundle b.tar.zst --trust site.pub
  kubexm conformance -f c.yaml --bundle b.tar.zst --unsigned --focus DNS"
)]
pub struct Conformance {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Run programs of a bundle whose signature is not verified
    #[arg(long, conflicts_with = "trust")]
    unsigned: bool,
    /// Accept a bundle that is older than the one of its name that the cluster was installed from
    #[arg(long)]
    allow_older: bool,
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
    /// Maximum duration of each of the two parts, from 1m to 1d; a number without a unit is in minutes
    #[arg(long, value_name = "DURATION", default_value = "3h", value_parser = limit)]
    timeout: Duration,
    /// The directory for reports, by default one in the state directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

fn limit(text: &str) -> Result<Duration, String> {
    let limit = duration::or_minutes(text)?;
    let permitted = Duration::from_secs(60)..=Duration::from_secs(24 * 60 * 60);
    let limit = permitted.contains(&limit).then_some(limit);
    limit.ok_or_else(|| "the limit is not from 1m to 1d".to_owned())
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
        allow_older: arguments.allow_older,
        focus: arguments.focus.clone(),
        skip: arguments.skip.clone(),
        parallel: arguments.parallel,
        limit: arguments.timeout,
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
        Err(Failure::found(ErrorKind::Tests))
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
