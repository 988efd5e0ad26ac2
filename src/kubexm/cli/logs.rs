//! `kubexm logs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use super::connection::ConnectionArgs;
use super::output::outln;
use super::selection::SelectionArgs;
use super::{Failure, duration, interrupt, output};
use crate::report::Output;
use kubexm_commands::Stop;
use kubexm_commands::logs::{self, Follower, LogEntry, LogsOptions, ProgramName};
use kubexm_types::event::Events;

/// How long hosts rest between two reads of new lines.
const REST: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm logs -f cluster.yaml kubelet --since 10m
  kubexm logs -f cluster.yaml kube-apiserver --role control-plane
  kubexm logs -f cluster.yaml etcd --host node1 --lines 1000
  kubexm logs -f cluster.yaml kube-apiserver --follow")]
pub struct Logs {
    /// A systemd unit, or a container of pods
    ///
    /// As in kubelet, containerd, etcd, kube-apiserver, coredns, haproxy or registry. kubexm looks for units with this name,
    /// with and without the prefix `kubexm-`, and for containers with this name in all pods of a host. No API server
    /// need run.
    #[arg(value_name = "NAME", value_parser = ProgramName::parse)]
    program: ProgramName,
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Earliest time: a duration before now such as 10m, 2h or 3d, or as in 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<OffsetDateTime>,
    /// Maximum number of lines of each unit and container
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5000))]
    lines: u32,
    /// Print new lines until you stop kubexm
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Prints the lines of all hosts.
///
/// # Errors
/// Fails with the exit code 4 if a host cannot be reached, after the lines of the others.
pub async fn run(arguments: &Logs, format: Output, events: &Events) -> Result<(), Failure> {
    let options = LogsOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        selection: arguments.selection.selection(),
        program: arguments.program.clone(),
        since: arguments.since,
        lines: arguments.lines,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_COMMAND);
    if arguments.follow {
        return follow(options, format, events, &stop).await;
    }
    let mut report = logs::logs(&options, events, &stop).await?;
    if format == Output::Json {
        output::document("LogsReport", &report)?;
        return report
            .check()
            .map_err(|error| Failure::from(error).reported());
    }
    for entry in &report.entries {
        print(entry)?;
    }
    if report.entries.is_empty() {
        events.note("nothing was logged in this time");
    }
    Ok(report.check()?)
}

/// Prints the lines that exist, and then each new one until the user stops the command.
async fn follow(
    options: LogsOptions,
    format: Output,
    events: &Events,
    stop: &Stop,
) -> Result<(), Failure> {
    if format == Output::Json {
        return Err(Failure::configuration(
            "--follow prints lines, and no JSON document\nhint: remove --follow, and repeat the command with --since",
        ));
    }
    let (mut follower, entries) = Follower::begin(options, events, stop).await?;
    entries.iter().try_for_each(print)?;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(REST) => {}
        }
        let entries = match follower.next(events, stop).await {
            Err(_) if stop.is_cancelled() => return Ok(()),
            found => found?,
        };
        entries.iter().try_for_each(print)?;
    }
}

/// Prints a line with the time in milliseconds, which is enough to compare hosts.
fn print(entry: &LogEntry) -> Result<(), Failure> {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let time = entry.time.format(format).map_err(Failure::unexpected)?;
    let LogEntry {
        host,
        source,
        message,
        ..
    } = entry;
    outln!("{time} {host} {source}: {}", message.trim_end());
    Ok(())
}

/// Parses a duration before now, or a time.
fn since(text: &str) -> Result<OffsetDateTime, String> {
    if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
        return Ok(time);
    }
    let ago = duration::parse(text)
        .ok()
        .and_then(|ago| ago.try_into().ok());
    let start = ago.and_then(|ago: time::Duration| OffsetDateTime::now_utc().checked_sub(ago));
    start.ok_or_else(|| {
        "expected a duration such as 90s, 10m, 2h or 3d, or a time such as 2026-01-31T12:00:00Z"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn start_is_a_duration_or_a_time() {
        let (recent, earlier) = (since("10m").unwrap(), since("2h").unwrap());
        assert!(earlier < recent && recent < OffsetDateTime::now_utc());
        assert_eq!(since("2026-01-31T12:00:00Z").unwrap().year(), 2026);
        for wrong in ["", "10", "yesterday"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
