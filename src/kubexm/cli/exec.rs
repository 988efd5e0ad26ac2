//! `kubexm exec`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::connection::ConnectionArgs;
use super::selection::SelectionArgs;
use super::{Failure, duration, interrupt, output};
use crate::report::Output;
use kubexm_operate::exec::{self, Ended, ExecOptions};
use kubexm_types::event::Events;
use kubexm_types::untrusted::printable_lines;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm exec -f cluster.yaml -- uptime
  kubexm exec -f cluster.yaml --role worker -- systemctl is-active kubelet
  kubexm exec -f cluster.yaml --host node1 -- sh -c 'df -h | tail -n 3'
  kubexm exec -f cluster.yaml --role etcd --dry-run -- systemctl restart etcd")]
pub struct Exec {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Maximum duration on each host, from 1s to 1d; a number without a unit is in seconds
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = limit)]
    timeout: Duration,
    /// Print the plan and run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// The program and its arguments
    ///
    /// The program runs as root, with /dev/null as its standard input. No shell parses its arguments. They are visible to
    /// all users of the host.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Exec {
    /// Returns whether the command reports its progress by events.
    pub fn emits_events(&self) -> bool {
        self.dry_run
    }
}

fn limit(text: &str) -> Result<Duration, String> {
    let limit = duration::or_seconds(text)?;
    let permitted = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);
    let limit = permitted.contains(&limit).then_some(limit);
    limit.ok_or_else(|| "the limit is not from 1s to 1d".to_owned())
}

/// Runs the command and prints the results. Hosts with the same result share one block.
///
/// # Errors
/// Fails with the exit code 4 if a host cannot be reached, and with 5 if the command failed on a host.
pub async fn run(arguments: &Exec, format: Output, events: &Events) -> Result<(), Failure> {
    let options = ExecOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        selection: arguments.selection.selection(),
        command: arguments.command.clone(),
        limit: arguments.timeout,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_COMMAND);
    if arguments.dry_run {
        return Ok(exec::dry_run(&options, events, &stop).await?);
    }
    let mut report = exec::exec(&options, events, &stop).await?;
    match format {
        Output::Json => output::document("ExecReport", &report)?,
        Output::Auto | Output::Plain => output::text(&shown(&report.hosts)),
    }
    let checked = report.check(&arguments.command[0]).map_err(Failure::from);
    match format {
        Output::Json => checked.map_err(Failure::reported),
        Output::Auto | Output::Plain => checked,
    }
}

/// Returns one block for all hosts with the same result, in the order of their first host.
fn shown(ended: &[Ended]) -> String {
    let is_same = |one: &Ended, other: &Ended| {
        (one.exit_status, &one.stdout, &one.stderr)
            == (other.exit_status, &other.stdout, &other.stderr)
    };
    let mut groups: Vec<Vec<&Ended>> = Vec::new();
    for host in ended {
        let same = groups.iter_mut().find(|group| is_same(group[0], host));
        match same {
            Some(group) => group.push(host),
            None => groups.push(vec![host]),
        }
    }
    groups.iter().map(|group| block(group)).collect()
}

/// Returns what the command printed on hosts with the same result. Each line is indented, so that no program can print the
/// name of another host.
fn block(group: &[&Ended]) -> String {
    let names: Vec<&str> = group.iter().map(|host| host.host.as_str()).collect();
    let Ended {
        exit_status,
        stdout,
        stderr,
        ..
    } = group[0];
    let status = match exit_status {
        0 => String::new(),
        status => format!(" (exit status {status})"),
    };
    let title = format!("{}{status}:\n", names.join(", "));
    let printed = printable_lines(stdout).into_iter();
    let printed = printed.map(|line| format!("  {line}\n"));
    let complained = printable_lines(stderr).into_iter();
    let complained = complained.map(|line| format!("  stderr: {line}\n"));
    [title]
        .into_iter()
        .chain(printed)
        .chain(complained)
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn program_cannot_print_lines_of_other_hosts() {
        let ended = |host: &str, stdout: &str, stderr: &str| Ended {
            host: host.parse().unwrap(),
            exit_status: 0,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        };
        let forged = "a\rnode9:\u{85}node9:\u{2028}node9:\u{2029}node9:\u{1b}[1Gb\n";
        let hosts = [
            ended("node1", "fine\n", ""),
            ended("node2", forged, "c\rnode9:"),
            ended("node3", "fine\n", ""),
        ];
        let text = shown(&hosts);
        insta::assert_snapshot!(text, @"
        node1, node3:
          fine
        node2:
          a
          node9:
          node9:
          node9:
          node9:b
          stderr: c
          stderr: node9:
        ");
        assert_eq!(kubexm_types::untrusted::printable(&text), text);
    }
}
