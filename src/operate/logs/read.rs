//! What hosts have in their logs.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use time::OffsetDateTime;

use super::ProgramName;
use super::entry::{self, LogEntry};
use kubexm_host::{Command, Host, HostError};
use kubexm_scripts::systemd as scripts;
use kubexm_session::CommandError;
use kubexm_session::session::{Hosts, PARALLEL};
use kubexm_session::share::Share;
use kubexm_types::{HostName, Message};

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
    /// The hosts that have more entries than kubexm keeps.
    pub cut: Vec<HostError>,
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
        if self.has_source || !self.errors.is_empty() {
            Ok(())
        } else {
            Err(CommandError::configuration(format!(
                "no selected host has a unit or a container '{}'",
                program.0
            ))
            .hint(
                "the names are those of units, as in kubelet or containerd, and of containers, as \
                 in kube-apiserver or coredns",
            ))
        }
    }

    /// Adds what a host printed. Returns whether it has more entries than its share.
    fn add(&mut self, host: &HostName, wanted: Wanted, text: &str, share: Share) -> bool {
        self.has_source |= !text.is_empty();
        let mut found = entry::parse(host, text);
        found.retain(|entry| wanted.since.is_none_or(|since| entry.time >= since));
        let count = found.len();
        keep_newest(&mut found, share.bytes);
        let has_more = found.len() < count;
        self.entries.extend(found);
        let counts = entry::counts(text).into_iter();
        let full = counts.filter(|(_, count)| *count >= wanted.lines);
        self.full
            .extend(full.map(|(source, _)| ((host.clone(), source), wanted.lines)));
        has_more
    }
}

/// Removes the oldest entries of a host, so that the others have at most this size.
fn keep_newest(entries: &mut Vec<LogEntry>, most: usize) {
    let size = |entry: &LogEntry| {
        let texts = entry.host.as_str().len() + entry.source.len() + entry.message.len();
        size_of::<LogEntry>() + texts
    };
    let mut all: usize = entries.iter().map(size).sum();
    if all <= most {
        return;
    }
    entries.sort_by_key(|entry| entry.time);
    let is_too_much = |entry: &&LogEntry| {
        let is_too_much = all > most;
        all -= size(entry);
        is_too_much
    };
    let oldest = entries.iter().take_while(is_too_much).count();
    entries.drain(..oldest);
}

/// Reads the log of a program on all hosts. Memory has the output of few hosts, and at most the share of each other one.
pub(super) async fn all(
    hosts: &Hosts,
    program: &ProgramName,
    wanted: impl Fn(&HostName) -> Wanted,
) -> Read {
    let share = Share::of(hosts.len());
    let reads = stream::iter(hosts).map(|(name, host)| {
        let wanted = wanted(name);
        async move { (name, wanted, one(host.as_ref(), program, wanted).await) }
    });
    let mut reads = std::pin::pin!(reads.buffered(PARALLEL));
    let mut read = Read::default();
    while let Some((name, wanted, result)) = reads.next().await {
        match result {
            Ok(text) => {
                if read.add(name, wanted, &text, share) {
                    let end = "older lines are missing; ask for fewer lines or hosts";
                    let error = share.exceeded(name, describe(program), "the log has", end);
                    read.cut.push(error);
                }
            }
            Err(error) => read.errors.push(error),
        }
    }
    // Entries of one source keep their order.
    read.entries.sort_by_key(|entry| entry.time);
    read
}

fn describe(program: &ProgramName) -> String {
    format!("read the log of {}", program.0)
}

/// Returns what the script prints on a host.
async fn one(host: &dyn Host, program: &ProgramName, wanted: Wanted) -> Result<String, HostError> {
    let since = wanted.since.map_or(0, OffsetDateTime::unix_timestamp);
    let parameters = scripts::Logs {
        name: program.0.clone(),
        count: wanted.lines.to_string(),
        since: since.max(0).to_string(),
    };
    let what = describe(program);
    let output = host
        .run(Command::from_script(scripts::LOGS, parameters).describe(what.clone()))
        .await?;
    if output.success() {
        Ok(output.text())
    } else {
        Err(HostError::Command {
            host: host.name().clone(),
            command: what,
            reason: Message::printed(output.complaint().as_str()),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn host_with_more_than_its_share_loses_its_oldest_entries() {
        let line = |second: u32| {
            let text = "x".repeat(100 * 1024);
            format!("|2026-01-02T03:04:0{second}Z stdout F {second} {text}\n")
        };
        let text = format!(
            "= pod a_new\n{}{}= pod a_old\n{}",
            line(2),
            line(3),
            line(1)
        );
        let host: HostName = "node1".parse().unwrap();
        let wanted = Wanted {
            since: None,
            lines: 10,
        };
        let kept = |hosts: usize| {
            let mut read = Read::default();
            let has_more = read.add(&host, wanted, &text, Share::of(hosts));
            let numbers = read
                .entries
                .iter()
                .map(|entry| entry.message[..1].to_owned());
            (has_more, numbers.collect::<Vec<_>>().concat())
        };
        assert_eq!(kept(1), (false, "231".to_owned()));
        // Each of 1024 hosts gets 256 KiB.
        assert_eq!(kept(1024), (true, "23".to_owned()));
    }
}
