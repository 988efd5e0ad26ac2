//! `kubexm logs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use super::connection::ConnectionArgs;
use super::selection::SelectionArgs;
use super::{Failure, duration, interrupt, output};
use crate::report::Output;
use kubexm_operate::logs::{self, Follower, LogEntry, LogsOptions, ProgramName};
use kubexm_session::Stop;
use kubexm_types::event::Events;
use kubexm_types::untrusted::{COLUMNS, Untrusted, printable_lines};

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
    /// with and without the prefix `kubexm-`, and for containers with this name in all pods of a host. It needs no
    /// API server.
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
    ///
    /// kubexm prints the newest lines, also with --since. --follow prints all lines of later, too.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5000))]
    lines: u32,
    /// Print new lines until you stop kubexm
    ///
    /// kubexm connects again to hosts that it lost. Not with --output json.
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
    output::text(&shown(&report.entries)?);
    if report.entries.is_empty() {
        events.note("nothing was logged in this time");
    }
    Ok(report.check()?)
}

/// Prints the lines that exist, and then each new one until the user stops the command, or the reader of the lines ends.
async fn follow(
    options: LogsOptions,
    format: Output,
    events: &Events,
    stop: &Stop,
) -> Result<(), Failure> {
    if format == Output::Json {
        return Err(
            Failure::configuration("--follow prints lines, and no JSON document")
                .hint("remove --follow, and repeat the command with --since"),
        );
    }
    tokio::select! {
        ended = print_new(options, events, stop) => ended,
        // As in `kubexm logs … --follow | grep -m1 ready`. There may be no other line, which would fail to reach it.
        () = output::closed() => Ok(()),
    }
}

async fn print_new(options: LogsOptions, events: &Events, stop: &Stop) -> Result<(), Failure> {
    let (mut follower, mut entries) = Follower::begin(options, events, stop).await?;
    while output::write(&shown(&entries)?).is_continue() {
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(REST) => {}
        }
        entries = match follower.next(events, stop).await {
            Err(_) if stop.is_cancelled() => break,
            found => found?,
        };
    }
    Ok(())
}

fn shown(entries: &[LogEntry]) -> Result<String, Failure> {
    entries.iter().map(lines).collect()
}

/// Returns the lines of an entry. Each has the host and the source, so that no program can print a line of another one. The
/// time is in milliseconds, which is enough to compare hosts.
fn lines(entry: &LogEntry) -> Result<String, Failure> {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let time = entry.time.format(format).map_err(Failure::defect)?;
    let LogEntry {
        host,
        source,
        message,
        ..
    } = entry;
    let source = Untrusted::one_line(source, COLUMNS);
    let mut lines = printable_lines(message.trim_end());
    if lines.is_empty() {
        lines.push(String::new());
    }
    let lines = lines.iter();
    Ok(lines
        .map(|line| format!("{time} {host} {source}: {line}\n"))
        .collect())
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
    fn program_cannot_print_lines_of_other_hosts() {
        let entry = |source: &str, message: &str| LogEntry {
            time: time::macros::datetime!(2026-01-31 12:00:00.25 UTC),
            host: "node1".parse().unwrap(),
            source: source.to_owned(),
            message: message.to_owned(),
        };
        let entries = [
            entry("kubelet", "a\nb\rc\u{85}d\u{2028}e\u{2029}f\n"),
            entry("demo/a\rnode9", "\u{1b}[1Gx"),
            entry("etcd", "x\n"),
        ];
        let text = shown(&entries).unwrap();
        insta::assert_snapshot!(text, @"
        2026-01-31T12:00:00.250Z node1 kubelet: a
        2026-01-31T12:00:00.250Z node1 kubelet: b
        2026-01-31T12:00:00.250Z node1 kubelet: c
        2026-01-31T12:00:00.250Z node1 kubelet: d
        2026-01-31T12:00:00.250Z node1 kubelet: e
        2026-01-31T12:00:00.250Z node1 kubelet: f
        2026-01-31T12:00:00.250Z node1 demo/a node9: x
        2026-01-31T12:00:00.250Z node1 etcd: x
        ");
        assert_eq!(kubexm_types::untrusted::printable(&text), text);
    }

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
