//! `exec`: runs a command on hosts of a cluster at the same time.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;

use crate::quoting::quoted;
use crate::session::{HostErrors, Hosts};
use crate::stop::unless_stopped;
use crate::{CommandError, Connection, HostSelection, Stop, notices};
use kubexm_host::{Command, HostError, Limit, Output};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// What to run, and where.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// On which hosts to run the command.
    pub selection: HostSelection,
    /// The program and its arguments. No shell parses them.
    pub command: Vec<String>,
    /// How long the command may run on each host.
    pub limit: Duration,
}

/// What the command did on each host.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecReport {
    /// The hosts on which the command ended, in the order of their names.
    pub hosts: Vec<Ended>,
    /// The hosts on which the command did not run to its end.
    pub failed: Vec<NotRun>,
}

/// A command that ended on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The host.
    pub host: HostName,
    /// The exit status.
    pub exit_status: i32,
    /// What the command wrote to standard output. Bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// The last part of what the command wrote to standard error.
    pub stderr: String,
}

/// A host on which the command did not run to its end.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotRun {
    /// The host.
    pub host: HostName,
    /// Why.
    #[serde(serialize_with = "message")]
    pub error: HostError,
}

impl ExecReport {
    /// Checks whether the command succeeded on all hosts.
    ///
    /// # Errors
    /// A host cannot be reached, the command did not end in time, or it ended with another exit status than 0.
    pub fn check(&mut self, program: &str) -> Result<(), CommandError> {
        let count = self.hosts.len() + self.failed.len();
        let failed: Vec<HostError> = std::mem::take(&mut self.failed)
            .into_iter()
            .map(|host| host.error)
            .collect();
        let is_about_command = |error: &HostError| {
            matches!(
                error,
                HostError::TimedOut { .. } | HostError::Command { .. }
            )
        };
        if !failed.iter().all(is_about_command) {
            return Err(CommandError::Hosts(failed));
        }
        let ended = self.hosts.iter().filter(|host| host.exit_status != 0);
        let names: Vec<&str> = ended.clone().map(|host| host.host.as_str()).collect();
        let mut lines: Vec<String> = failed.iter().map(ToString::to_string).collect();
        if !names.is_empty() {
            let (failed, names) = (names.len(), names.join(", "));
            lines.push(format!(
                "{program} failed on {failed} of {count} hosts: {names}"
            ));
        }
        // The status of a shell and of kubexm for a program that does not exist.
        if ended.clone().any(|host| host.exit_status == 127) {
            let hint = "hint: kubexm runs a program without a shell; for a line of shell, use -- sh -c 'LINE'";
            lines.push(hint.to_owned());
        }
        match lines.is_empty() {
            true => Ok(()),
            false => Err(CommandError::Exec(lines.join("\n"))),
        }
    }
}

/// Runs a command as root on all selected hosts that can be reached. It takes no lock, because the command may be a
/// question about a host on which an install runs.
///
/// # Errors
/// The cluster file is wrong, it does not have a selected host, or the user stopped the command. A command that fails and
/// an unreachable host are part of the report.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn exec(
    options: &ExecOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ExecReport, CommandError> {
    let (hosts, errors) = connect(options, events, stop).await?;
    let runs = hosts
        .iter()
        .map(|(name, host)| async move { (name.clone(), host.run(command(options)).await) });
    let results = tokio::select! {
        results = join_all(runs) => results,
        () = stop.cancelled() => {
            join_all(hosts.values().map(|host| host.settle())).await;
            return Err(CommandError::Interrupted(
                "stopped: kubexm ended the command on all hosts".to_owned(),
            ));
        }
    };
    let not_run = |(host, error)| NotRun { host, error };
    let mut report = ExecReport {
        hosts: Vec::new(),
        failed: errors.into_iter().map(not_run).collect(),
    };
    for (host, result) in results {
        match result {
            Ok(output) => report.hosts.push(ended(host, &output)),
            Err(error) => report.failed.push(NotRun { host, error }),
        }
    }
    Ok(report)
}

/// Connects to the selected hosts, and emits as a note what the command would run on which of them. Runs nothing.
///
/// # Errors
/// The cluster file is wrong, it does not have a selected host, a host cannot be reached, or the user stopped the command.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn dry_run(
    options: &ExecOptions,
    events: &Events,
    stop: &Stop,
) -> Result<(), CommandError> {
    let (hosts, errors) = connect(options, events, stop).await?;
    if !hosts.is_empty() {
        events.note(plan(options, hosts.keys()));
    }
    events.note("dry run: nothing was touched");
    match errors.is_empty() {
        true => Ok(()),
        false => Err(CommandError::Hosts(
            errors.into_iter().map(|(_, error)| error).collect(),
        )),
    }
}

async fn connect(
    options: &ExecOptions,
    events: &Events,
    stop: &Stop,
) -> Result<(Hosts, HostErrors), CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let cluster = options.selection.of(cluster)?;
    let connecting = options.connection.connect_each(&cluster, &state, events);
    unless_stopped(stop, connecting).await
}

/// Returns the plan for people.
fn plan<'a>(options: &ExecOptions, hosts: impl Iterator<Item = &'a HostName>) -> String {
    let words: Vec<String> = options.command.iter().map(|word| quoted(word)).collect();
    let mut text = format!(
        "runs as root on these hosts at the same time, for at most {} seconds:",
        options.limit.as_secs()
    );
    for host in hosts {
        let _ = write!(text, "\n  {host}\n    {}", words.join(" "));
    }
    text
}

fn command(options: &ExecOptions) -> Command {
    let mut words = options.command.iter();
    let program = words.next().cloned().unwrap_or_default();
    // The arguments may be long, and the user knows them.
    Command::new(program.clone())
        .args(words)
        .describe(program)
        .limit(Limit::new(options.limit, "this command (--timeout)"))
}

fn ended(host: HostName, output: &Output) -> Ended {
    Ended {
        host,
        exit_status: output.status,
        stdout: output.text(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn message<S: serde::Serializer>(error: &HostError, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::ErrorKind;
    use kubexm_host::Reason;

    fn name(text: &str) -> HostName {
        HostName::parse(text).unwrap()
    }

    fn report(statuses: &[i32], failed: Vec<HostError>) -> ExecReport {
        let ended = |(at, status): (usize, &i32)| Ended {
            host: name(&format!("node{}", at + 1)),
            exit_status: *status,
            stdout: String::new(),
            stderr: String::new(),
        };
        let not_run = |error| NotRun {
            host: name("node9"),
            error,
        };
        ExecReport {
            hosts: statuses.iter().enumerate().map(ended).collect(),
            failed: failed.into_iter().map(not_run).collect(),
        }
    }

    fn failure(mut report: ExecReport) -> (ErrorKind, String) {
        let error = report.check("df").unwrap_err();
        (error.kind(), error.to_string())
    }

    #[test]
    fn command_that_succeeds_on_all_hosts_is_a_success() {
        assert!(report(&[0, 0], Vec::new()).check("df").is_ok());
    }

    #[test]
    fn failed_commands_are_counted_by_host() {
        let (kind, text) = failure(report(&[1, 0, 127], Vec::new()));
        assert_eq!(kind, ErrorKind::Step);
        insta::assert_snapshot!(text, @"
        df failed on 2 of 3 hosts: node1, node3
        hint: kubexm runs a program without a shell; for a line of shell, use -- sh -c 'LINE'
        ");
    }

    #[test]
    fn command_that_does_not_end_is_a_failure_of_the_command() {
        let error = HostError::TimedOut {
            host: name("node9"),
            command: "df".to_owned(),
            limit: Limit::new(Duration::from_secs(2), "this command (--timeout)"),
            output: String::new(),
        };
        let (kind, text) = failure(report(&[0], vec![error]));
        assert_eq!(kind, ErrorKind::Step);
        assert!(
            text.starts_with("node9: df: exceeded the time limit of 2 seconds"),
            "{text}"
        );
    }

    #[test]
    fn plan_has_the_command_of_each_host() {
        let options = ExecOptions {
            cluster: PathBuf::from("cluster.yaml"),
            connection: Connection::default(),
            selection: HostSelection::default(),
            command: ["sh", "-c", "echo 'it is'; rm -rf /srv/x", ""]
                .map(str::to_owned)
                .into(),
            limit: Duration::from_secs(600),
        };
        let hosts = [name("node1"), name("node2")];
        insta::assert_snapshot!(plan(&options, hosts.iter()), @r"
        runs as root on these hosts at the same time, for at most 600 seconds:
          node1
            sh -c 'echo '\''it is'\''; rm -rf /srv/x' ''
          node2
            sh -c 'echo '\''it is'\''; rm -rf /srv/x' ''
        ");
    }

    #[test]
    fn host_that_cannot_be_reached_is_a_failure_of_the_host() {
        let error = HostError::Unreachable {
            host: name("node9"),
            address: "192.0.2.9:22".to_owned(),
            reason: Reason::new("no route to host"),
        };
        let (kind, text) = failure(report(&[1], vec![error]));
        assert_eq!(kind, ErrorKind::Host);
        assert_eq!(text, "node9: cannot reach 192.0.2.9:22: no route to host");
    }
}
