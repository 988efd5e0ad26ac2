//! `kubexm install`.

use clap::Args;

use super::connection::ConnectionArgs;
use super::out::{self, say};
use super::subject::Subject;
use super::{Failure, interrupt};
use crate::report::Output;
use kubexm_commands::install::{self, InstallOptions, InstallReport};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
pub struct Install {
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Look at the hosts, print the whole plan, touch nothing
    #[arg(long)]
    dry_run: bool,
}

/// Installs a cluster, or prints what an install would do.
pub async fn run(arguments: &Install, output: Output, events: &Events) -> Result<(), Failure> {
    let options = InstallOptions {
        source: arguments.subject.source(),
        connection: arguments.connection.options(),
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    if arguments.dry_run {
        let found = install::dry_run(&options, events, &stop).await?;
        match output {
            Output::Json => found.planned.emit(events)?,
            Output::Auto | Output::Plain => out::text(&found.planned.text()?),
        }
        found.report_findings(events)?;
        events.note("dry run: nothing was touched");
        return Ok(());
    }
    let report = install::install(&options, events, &stop).await?;
    if output != Output::Json {
        print(&report);
    }
    Ok(())
}

fn print(report: &InstallReport) {
    let (unchanged, ran) = (report.unchanged, report.ran);
    match report.changed {
        0 => say!("nothing to change: all {unchanged} checks found the desired state"),
        changed => say!("{changed} steps changed a host, {unchanged} found the desired state"),
    }
    say!("{ran} actions ran");
    let total = ("all", report.total);
    for (phase, time) in report.phases.iter().chain([&total]) {
        say!("  {phase:20} {:>6.1} s", time.as_secs_f64());
    }
    say!("kubeconfig: {}", report.kubeconfig.display());
}
