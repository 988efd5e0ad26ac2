//! `logs`: what a program of the cluster logged on all hosts, in the order of time.

pub mod entry;
mod follow;
mod lost;
mod printed;
mod read;

use std::path::PathBuf;

use serde::Serialize;
use time::OffsetDateTime;

pub use self::entry::LogEntry;
pub use self::follow::Follower;
use self::read::{Read, Wanted};
use kubexm_config::Cluster;
use kubexm_host::HostError;
use kubexm_session::session::{HostErrors, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Connection, HostSelection, Stop, notices};
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
        if is_valid {
            Ok(Self(name.to_owned()))
        } else {
            Err(InvalidValue::new(
                "name of a unit or container",
                text,
                "expected letters, digits and :_.@-, as in kubelet or kube-apiserver",
            ))
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
        if self.errors.is_empty() {
            Ok(())
        } else {
            Err(CommandError::Hosts(std::mem::take(&mut self.errors)))
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
    let site = Site::load(options, events)?;
    let (hosts, unreachable) = site.connect(events, stop).await?;
    let read = read_first(options, &hosts, unreachable, stop).await?;
    Ok(LogsReport {
        entries: read.entries,
        errors: read.errors.into_iter().chain(read.cut).collect(),
    })
}

/// Reads what the user asks for. The errors include those of unreachable hosts.
///
/// # Errors
/// No host has such a unit or container, no host can be reached, or the user stopped the command.
async fn read_first(
    options: &LogsOptions,
    hosts: &Hosts,
    unreachable: Vec<HostError>,
    stop: &Stop,
) -> Result<Read, CommandError> {
    let wanted = |_: &HostName| Wanted {
        since: options.since,
        lines: options.lines,
    };
    let reading = async { Ok(read::all(hosts, &options.program, wanted).await) };
    let mut read = unless_stopped(stop, reading).await?;
    read.errors.extend(unreachable);
    read.check(&options.program)?;
    Ok(read)
}

/// The selected hosts, and how to connect to them.
struct Site {
    connection: Connection,
    cluster: Cluster,
    state: PathBuf,
}

impl Site {
    fn load(options: &LogsOptions, events: &Events) -> Result<Self, CommandError> {
        options.connection.check()?;
        let cluster = kubexm_config::load_cluster(&options.cluster)?;
        notices::emit(&cluster.notices, events);
        let state = options.connection.state_directory(&cluster, events)?;
        Ok(Self {
            connection: options.connection.clone(),
            cluster: options.selection.of(cluster)?,
            state,
        })
    }

    /// Connects to the hosts. Also returns why some are unreachable.
    async fn connect(
        &self,
        events: &Events,
        stop: &Stop,
    ) -> Result<(Hosts, Vec<HostError>), CommandError> {
        let connecting = self
            .connection
            .connect_reachable(&self.cluster, &self.state, events);
        unless_stopped(stop, connecting).await
    }

    /// Connects to one of the hosts.
    async fn connect_to(
        &self,
        name: &HostName,
        events: &Events,
    ) -> Result<(Hosts, HostErrors), CommandError> {
        let mut cluster = self.cluster.clone();
        cluster.hosts.retain(|host| host.name == *name);
        self.connection
            .connect_each(&cluster, &self.state, events)
            .await
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
