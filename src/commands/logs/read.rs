//! What hosts have in their logs.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use time::OffsetDateTime;

use super::ProgramName;
use super::entry::{self, LogEntry};
use crate::CommandError;
use crate::session::Hosts;
use kubexm_host::{Command, Host, HostError};
use kubexm_scripts::systemd::LOGS;
use kubexm_types::HostName;

/// A unit or the containers of a pod on a host.
pub(super) type Source = (HostName, String);

/// Which lines of a host to read.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// The earliest time.
    pub since: Option<OffsetDateTime>,
    /// The largest number of lines of each source.
    pub lines: u32,
}

/// What hosts printed.
#[derive(Default)]
pub(super) struct Read {
    /// The entries, the oldest first.
    pub entries: Vec<LogEntry>,
    /// Why the entries of other hosts are missing.
    pub errors: Vec<HostError>,
    /// Sources with as many lines as were wanted. They may have more.
    pub full: BTreeMap<Source, u32>,
    /// Whether a host has a unit or a container of the name.
    pub has_source: bool,
}

impl Read {
    /// Checks whether a host has the program, or may have it.
    ///
    /// # Errors
    /// Each host answered, and none has such a unit or container.
    pub fn check(&self, program: &ProgramName) -> Result<(), CommandError> {
        match self.has_source || !self.errors.is_empty() {
            true => Ok(()),
            false => Err(CommandError::Configuration(format!(
                "no selected host has a unit or a container '{}'\nhint: the names are those of units, as in kubelet or \
                 containerd, and of containers, as in kube-apiserver or coredns",
                program.0
            ))),
        }
    }

    fn add(&mut self, host: &HostName, wanted: Wanted, text: &str) {
        self.has_source |= !text.is_empty();
        let found = entry::parse(host, text).into_iter();
        let is_wanted = |entry: &LogEntry| wanted.since.is_none_or(|since| entry.time >= since);
        self.entries.extend(found.filter(is_wanted));
        let counts = entry::counts(text).into_iter();
        let full = counts.filter(|(_, count)| *count >= wanted.lines);
        self.full
            .extend(full.map(|(source, _)| ((host.clone(), source), wanted.lines)));
    }
}

/// Reads the log of a program on all hosts.
pub(super) async fn all(
    hosts: &Hosts,
    program: &ProgramName,
    wanted: impl Fn(&HostName) -> Wanted,
) -> Read {
    let reads = hosts.iter().map(|(name, host)| {
        let wanted = wanted(name);
        async move { (name, wanted, one(host.as_ref(), program, wanted).await) }
    });
    let mut read = Read::default();
    for (name, wanted, result) in join_all(reads).await {
        match result {
            Ok(text) => read.add(name, wanted, &text),
            Err(error) => read.errors.push(error),
        }
    }
    // Entries of one source keep their order.
    read.entries.sort_by_key(|entry| entry.time);
    read
}

/// Returns what the script prints on a host.
async fn one(host: &dyn Host, program: &ProgramName, wanted: Wanted) -> Result<String, HostError> {
    let since = wanted.since.map_or(0, OffsetDateTime::unix_timestamp);
    let arguments = [
        program.0.clone(),
        wanted.lines.to_string(),
        since.max(0).to_string(),
    ];
    let what = format!("read the log of {}", program.0);
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
