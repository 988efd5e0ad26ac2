//! `exec`: runs a command on hosts of a cluster at the same time.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;

use kubexm_host::{Command, HostError, Limit, Output};
use kubexm_session::quoting::quoted;
use kubexm_session::session::{HostErrors, Hosts};
use kubexm_session::share::Share;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Connection, HostSelection, Stop, notices};
use kubexm_types::event::Events;
use kubexm_types::{HostName, Message};

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
    /// The hosts on which kubexm ended the command, because the user stopped it.
    pub stopped: Vec<HostName>,
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

/// What the user can do about a program that does not exist.
const WITHOUT_SHELL: &str =
    "kubexm runs a program without a shell; for a line of shell, use -- sh -c 'LINE'";

/// A host on which the command did not run to its end.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotRun {
    /// The host.
    pub host: HostName,
    /// Why.
    #[serde(flatten, serialize_with = "message")]
    pub error: HostError,
}

impl ExecReport {
    /// Checks whether the command succeeded on all hosts.
    ///
    /// # Errors
    /// The user stopped the command, a host cannot be reached, the command did not end in time, or it ended with another exit
    /// status than 0.
    pub fn check(&mut self, program: &str) -> Result<(), CommandError> {
        let count = self.hosts.len() + self.failed.len() + self.stopped.len();
        let stopped = self.stopped_on(count);
        let ended = self.check_ended(program, count);
        match stopped {
            None => ended,
            Some(stopped) => {
                let mut message = Message::new(stopped);
                if let Some(also) = ended.err().map(|error| Message::from(&error)) {
                    message.text += &format!("\n{}", also.text);
                    message.hint = also.hint;
                }
                Err(CommandError::interrupted(message))
            }
        }
    }

    fn stopped_on(&self, count: usize) -> Option<String> {
        let names: Vec<&str> = self.stopped.iter().map(HostName::as_str).collect();
        let (stopped, names) = (names.len(), names.join(", "));
        (stopped > 0).then(|| {
            format!("stopped: kubexm ended the command on {stopped} of {count} hosts: {names}")
        })
    }

    fn check_ended(&mut self, program: &str, count: usize) -> Result<(), CommandError> {
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
        let without_shell = ended.clone().any(|host| host.exit_status == 127);
        if lines.is_empty() {
            Ok(())
        } else {
            let message = Message::new(lines.join("\n"));
            Err(CommandError::step(
                message.or_hint(without_shell.then_some(WITHOUT_SHELL)),
            ))
        }
    }
}

/// Runs a command as root on all selected hosts that can be reached. It takes no lock, because the command may be a
/// question about a host on which an install runs.
///
/// # Errors
/// The cluster file is wrong, it does not have a selected host, or the user stopped kubexm before a command ran. A command
/// that fails or is stopped, and an unreachable host are part of the report.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn exec(
    options: &ExecOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ExecReport, CommandError> {
    let (hosts, errors) = connect(options, events, stop).await?;
    let not_run = |(host, error)| NotRun { host, error };
    let mut report = run_on(&hosts, options, stop).await;
    report.failed.splice(..0, errors.into_iter().map(not_run));
    Ok(report)
}

/// Runs the command on hosts until it ended on each of them, or the user stops it.
async fn run_on(hosts: &Hosts, options: &ExecOptions, stop: &Stop) -> ExecReport {
    let share = Share::of(hosts.len());
    let runs = hosts.iter().map(|(name, host)| async move {
        let run = async {
            let output = host.run(command(options)).await?;
            // Here, so that the rest of the output is not kept until the last host ends.
            ended(name, output, share, options)
        };
        tokio::select! {
            // A command that ended was not stopped.
            biased;
            result = run => (name.clone(), Some(result)),
            () = stop.cancelled() => (name.clone(), None),
        }
    });
    let mut report = ExecReport {
        hosts: Vec::new(),
        failed: Vec::new(),
        stopped: Vec::new(),
    };
    for (host, result) in join_all(runs).await {
        match result {
            Some(Ok(ended)) => report.hosts.push(ended),
            Some(Err(error)) => report.failed.push(NotRun { host, error }),
            None => report.stopped.push(host),
        }
    }
    let stopped = report.stopped.iter().filter_map(|name| hosts.get(name));
    join_all(stopped.map(|host| host.settle())).await;
    report
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
    if errors.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Hosts(
            errors.into_iter().map(|(_, error)| error).collect(),
        ))
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

/// Returns what a command left. Half an output could be taken for a complete one, and is an error.
fn ended(
    host: &HostName,
    output: Output,
    share: Share,
    options: &ExecOptions,
) -> Result<Ended, HostError> {
    if output.stdout.len() > share.bytes {
        let program = options.command.first().cloned().unwrap_or_default();
        let end = "print less, or select fewer hosts";
        return Err(share.exceeded(host, program, "the command printed", end));
    }
    let mut stderr = output.stderr;
    stderr.drain(..stderr.len().saturating_sub(share.bytes));
    Ok(Ended {
        host: host.clone(),
        exit_status: output.status,
        stdout: text(output.stdout),
        stderr: text(stderr),
    })
}

/// Returns bytes as text. Those that are not UTF-8 are replaced; others are not copied.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn message<S: serde::Serializer>(error: &HostError, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Error {
        error: String,
        hint: Option<String>,
    }
    let Message { text, hint, .. } = error.message();
    Error { error: text, hint }.serialize(serializer)
}

#[cfg(test)]
mod tests;
