//! `logs`: what a program of the cluster logged on all hosts, in the order of time.

pub(crate) mod entry;
mod follow;

use std::path::PathBuf;

use futures_util::future::join_all;
use serde::Serialize;
use time::OffsetDateTime;

pub use self::entry::LogEntry;
pub use self::follow::Follower;
use crate::session::Hosts;
use crate::stop::unless_stopped;
use crate::{CommandError, Connection, HostSelection, Stop, notices};
use kubexm_host::{Command, Host, HostError};
use kubexm_scripts::systemd::LOGS;
use kubexm_types::event::Events;
use kubexm_types::{HostName, InvalidValue};

/// The name of a systemd unit without `.service`, or of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramName(String);

impl ProgramName {
    /// Parses a name.
    ///
    /// # Errors
    /// The text has a character that is not in names of units, or starts with a dot or a dash.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let name = text.strip_suffix(".service").unwrap_or(text);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b":_.@-".contains(&byte);
        let is_valid = !name.is_empty()
            && name.len() <= 240
            && name.bytes().all(is_part)
            && !name.starts_with(['.', '-']);
        match is_valid {
            true => Ok(Self(name.to_owned())),
            false => Err(InvalidValue::new(
                "name of a unit or container",
                text,
                "expected letters, digits and :_.@-, as in kubelet or kube-apiserver",
            )),
        }
    }
}

/// Which entries to collect.
#[derive(Debug, Clone)]
pub struct LogsOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// From which hosts.
    pub selection: HostSelection,
    /// Of which program.
    pub program: ProgramName,
    /// The earliest time.
    pub since: Option<OffsetDateTime>,
    /// The largest number of entries of each unit and container, the newest ones.
    pub lines: u32,
}

/// The entries of all hosts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogsReport {
    /// The entries, the oldest first. Entries of different hosts have the clocks of these hosts.
    pub entries: Vec<LogEntry>,
    /// Hosts whose entries are missing.
    #[serde(serialize_with = "messages")]
    pub errors: Vec<HostError>,
}

impl LogsReport {
    /// Returns the entries without the errors.
    ///
    /// # Errors
    /// Lists every host whose entries are missing.
    pub fn check(&mut self) -> Result<(), CommandError> {
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(CommandError::Hosts(std::mem::take(&mut self.errors))),
        }
    }
}

/// Collects the entries of a program from the journals of hosts, and from the log files of containers. It works without an
/// API server.
///
/// # Errors
/// The cluster file is wrong, no host has such a unit or container, no host can be reached, or the user stopped the
/// command.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn logs(
    options: &LogsOptions,
    events: &Events,
    stop: &Stop,
) -> Result<LogsReport, CommandError> {
    let (hosts, unreachable) = connect(options, events, stop).await?;
    let reading = collect(&hosts, options, |_| options.since);
    let mut report = unless_stopped(stop, reading).await?;
    report.errors.extend(unreachable);
    Ok(report)
}

/// Connects to the selected hosts. Returns those that cannot be reached, too.
async fn connect(
    options: &LogsOptions,
    events: &Events,
    stop: &Stop,
) -> Result<(Hosts, Vec<HostError>), CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let cluster = options.selection.of(cluster)?;
    let connecting = options
        .connection
        .connect_reachable(&cluster, &state, events);
    unless_stopped(stop, connecting).await
}

/// Reads the entries of all hosts, each since a time.
///
/// # Errors
/// Each host answers, and none has such a unit or container.
async fn collect(
    hosts: &Hosts,
    options: &LogsOptions,
    since: impl Fn(&HostName) -> Option<OffsetDateTime>,
) -> Result<LogsReport, CommandError> {
    let reads = hosts.iter().map(|(name, host)| {
        let since = since(name);
        async move { (name, since, read(host.as_ref(), options, since).await) }
    });
    let (mut entries, mut errors) = (Vec::new(), Vec::new());
    let mut has_source = false;
    for (name, since, result) in join_all(reads).await {
        match result {
            Ok(text) => {
                has_source |= !text.is_empty();
                let found = entry::parse(name, &text).into_iter();
                entries.extend(found.filter(|entry| since.is_none_or(|since| entry.time >= since)));
            }
            Err(error) => errors.push(error),
        }
    }
    if !has_source && errors.is_empty() {
        return Err(CommandError::Configuration(format!(
            "no selected host has a unit or a container '{}'\nhint: the names are those of units, as in kubelet or \
             containerd, and of containers, as in kube-apiserver or coredns",
            options.program.0
        )));
    }
    // Entries of one source keep their order.
    entries.sort_by_key(|entry| entry.time);
    Ok(LogsReport { entries, errors })
}

/// Returns what the script prints on a host.
async fn read(
    host: &dyn Host,
    options: &LogsOptions,
    since: Option<OffsetDateTime>,
) -> Result<String, HostError> {
    let since = since.map_or(0, OffsetDateTime::unix_timestamp);
    let arguments = [
        options.program.0.clone(),
        options.lines.to_string(),
        since.max(0).to_string(),
    ];
    let what = format!("read the log of {}", options.program.0);
    let output = host
        .run(Command::from_script(LOGS, arguments).describe(what.clone()))
        .await?;
    match output.success() {
        true => Ok(output.text()),
        false => Err(HostError::Command {
            host: host.name().clone(),
            command: what,
            reason: output.complaint().to_string(),
        }),
    }
}

fn messages<S: serde::Serializer>(errors: &[HostError], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(errors.iter().map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn name_is_that_of_a_unit_or_a_container_and_no_path() {
        for good in ["kubelet", "kubelet.service", "kube-apiserver", "getty@tty1"] {
            assert!(ProgramName::parse(good).is_ok(), "{good}");
        }
        assert_eq!(ProgramName::parse("a.service"), ProgramName::parse("a"));
        for wrong in ["", "..", "-u", "a/b", "a b", "a*", "$(a)"] {
            assert!(ProgramName::parse(wrong).is_err(), "{wrong}");
        }
    }
}
