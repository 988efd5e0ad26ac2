//! Entries of the journal, and of the log files of containers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use kubexm_types::HostName;

/// A line that a program logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// The time of the host.
    #[serde(with = "time::serde::rfc3339")]
    pub time: OffsetDateTime,
    /// The host.
    pub host: HostName,
    /// The unit, or namespace and name of the pod, as in `kube-system/coredns-abc`.
    pub source: String,
    /// The text of the program.
    pub message: String,
}

/// A log of a host.
enum Source {
    Unit(String),
    Pod(String),
}

/// The log file of a container of Docker (<https://docs.docker.com/engine/logging/drivers/json-file/>).
#[derive(Deserialize)]
struct DockerLine {
    log: String,
    #[serde(with = "time::serde::rfc3339")]
    time: OffsetDateTime,
}

/// Parses what `logs.sh` prints on a host. Lines of another form are left out: a program may be writing them.
pub fn parse(host: &HostName, text: &str) -> Vec<LogEntry> {
    let mut source = None;
    let mut partial = String::new();
    let mut entries = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("= ") {
            source = parse_source(name);
            partial.clear();
            continue;
        }
        let (Some(line), Some(source)) = (line.strip_prefix('|'), &source) else {
            continue;
        };
        let (name, found) = match source {
            Source::Unit(name) => (name, journal_entry(line)),
            Source::Pod(name) => (name, container_line(line, &mut partial)),
        };
        entries.extend(found.map(|(time, message)| LogEntry {
            time,
            host: host.clone(),
            source: name.clone(),
            message,
        }));
    }
    entries
}

/// Returns the number of lines of each source that `logs.sh` prints, including lines that are not entries.
pub(super) fn counts(text: &str) -> BTreeMap<String, u32> {
    let mut source = None;
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        match (line.strip_prefix("= "), &source) {
            (Some(name), _) => source = parse_source(name),
            (None, Some(Source::Unit(name) | Source::Pod(name))) => {
                *counts.entry(name.clone()).or_default() += 1;
            }
            (None, None) => {}
        }
    }
    counts
}

fn parse_source(text: &str) -> Option<Source> {
    match text.split_once(' ')? {
        ("unit", name) => Some(Source::Unit(name.to_owned())),
        // A name of Kubernetes has no underscore.
        ("pod", name) => Some(Source::Pod(name.replacen('_', "/", 1))),
        _ => None,
    }
}

/// Reads an entry of `journalctl -o json`
/// (<https://www.freedesktop.org/software/systemd/man/latest/systemd.journal-fields.html>).
fn journal_entry(line: &str) -> Option<(OffsetDateTime, String)> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let microseconds: i128 = entry["__REALTIME_TIMESTAMP"].as_str()?.parse().ok()?;
    let nanoseconds = microseconds.checked_mul(1000)?;
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok()?;
    Some((time, message(&entry["MESSAGE"])?))
}

/// Returns the text of an entry of the journal; `None` if it has none.
fn message(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        // Several texts of one entry.
        Value::Array(texts) if !texts.iter().all(Value::is_number) => {
            let texts: Vec<String> = texts.iter().filter_map(message).collect();
            Some(texts.join("\n"))
        }
        // A text that is not UTF-8, or that has control characters.
        Value::Array(bytes) => {
            let bytes = bytes
                .iter()
                .filter_map(|byte| u8::try_from(byte.as_u64()?).ok());
            Some(String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned())
        }
        _ => None,
    }
}

/// Reads a line of a log file in the format of the CRI, `TIME STREAM TAGS TEXT`, or of Docker. `partial` has the text of
/// the lines before it that end within a line of the program.
fn container_line(line: &str, partial: &mut String) -> Option<(OffsetDateTime, String)> {
    if line.starts_with('{') {
        let line: DockerLine = serde_json::from_str(line).ok()?;
        partial.push_str(&line.log);
        // Docker splits long lines, and only the last part ends with a line feed.
        let ended = partial.strip_suffix('\n')?.to_owned();
        partial.clear();
        return Some((line.time, ended));
    }
    let mut parts = line.splitn(4, ' ');
    let time = OffsetDateTime::parse(parts.next()?, &Rfc3339).ok()?;
    let (_stream, tags) = (parts.next()?, parts.next()?);
    partial.push_str(parts.next().unwrap_or_default());
    if tags.split(':').any(|tag| tag == "P") {
        return None;
    }
    Some((time, std::mem::take(partial)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parsed(text: &str) -> Vec<String> {
        let entries = parse(&HostName::parse("node1").unwrap(), text);
        let shown = |entry: LogEntry| {
            let time = entry.time.format(&Rfc3339).unwrap();
            format!("{time} {}: {}", entry.source, entry.message)
        };
        entries.into_iter().map(shown).collect()
    }

    #[test]
    fn entries_of_the_journal_are_read() {
        let text = r#"= unit kubelet
|{"__REALTIME_TIMESTAMP":"1767323045123456","MESSAGE":"started","_PID":"7"}
|{"__REALTIME_TIMESTAMP":"1767323046000000","MESSAGE":[110,111,255]}
|{"__REALTIME_TIMESTAMP":"1767323046000000","MESSAGE":["two",[116,255]]}
|{"__REALTIME_TIMESTAMP":"1767323046000000","MESSAGE":null}
|-- No entries --
"#;
        let expected = [
            "2026-01-02T03:04:05.123456Z kubelet: started",
            "2026-01-02T03:04:06Z kubelet: no\u{fffd}",
            "2026-01-02T03:04:06Z kubelet: two\nt\u{fffd}",
        ];
        assert_eq!(parsed(text), expected);
    }

    #[test]
    fn lines_of_containers_are_read_and_partial_ones_joined() {
        let text = r#"= pod kube-system_kube-apiserver-node1
|2026-01-02T03:04:05.5Z stderr P one
|2026-01-02T03:04:05.6Z stderr F  two = |three
|not a line of a log
|2026-01-02T03:04:06Z stdout F
= pod default_web
|{"log":"long ","stream":"stdout","time":"2026-01-02T03:04:07.25Z"}
|{"log":"line\n","stream":"stdout","time":"2026-01-02T03:04:08Z"}
"#;
        let expected = [
            "2026-01-02T03:04:05.6Z kube-system/kube-apiserver-node1: one two = |three",
            "2026-01-02T03:04:06Z kube-system/kube-apiserver-node1: ",
            "2026-01-02T03:04:08Z default/web: long line",
        ];
        assert_eq!(parsed(text), expected);
    }

    #[test]
    fn host_cannot_forge_a_source() {
        let text = "|2026-01-02T03:04:05Z stdout F before a source\n= other x\n|2026-01-02T03:04:05Z stdout F x\n";
        assert!(parsed(text).is_empty());
    }
}
