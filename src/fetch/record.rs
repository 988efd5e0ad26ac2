//! The record of an unfinished download, stored with its bytes.
//!
//! `partial/<key>.record` has one JSON object per line, each a complete record; the last readable line is
//! valid. A line is appended after the bytes it describes were written, so that a process can be killed
//! between any two system calls: the bytes that the last line names are in the file. After a power loss,
//! only flushed bytes are certain. Each line therefore has the boot ID and the flushed ranges.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ranges::Ranges;
use kubexm_types::write_atomic;

/// Maximum size of a record, in bytes; a larger file was not written by kubexm.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The version of the file that a partial file belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The requested address, without user and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The strong `ETag`, for `If-Range`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The expected size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// One line of the record.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Line {
    /// The kernel's boot ID.
    boot: String,
    #[serde(flatten)]
    version: Version,
    /// The written ranges.
    there: Ranges,
    /// The ranges that were flushed to the disk.
    flushed: Ranges,
}

/// The record of one partial file, open for appending.
pub(super) struct Record {
    path: PathBuf,
    file: File,
    boot: String,
}

impl Record {
    /// Returns the path of a partial file's record.
    pub fn path_of(partial: &Path) -> PathBuf {
        partial.with_extension("record")
    }

    /// Returns version and certain ranges of a partial file of `length` bytes.
    pub fn read(partial: &Path, length: u64) -> (Version, Ranges) {
        let line = last_line(&Self::path_of(partial)).unwrap_or_default();
        let ranges = if line.boot == boot_id() {
            line.there
        } else {
            line.flushed
        };
        // Another process has truncated the file, so the record is not reliable.
        if ranges.end() > length {
            return (Version::default(), Ranges::default());
        }
        (line.version, ranges)
    }

    /// Replaces the record with a single line.
    pub fn begin(partial: &Path, version: &Version, flushed: &Ranges) -> io::Result<Self> {
        let line = line(boot_id(), version, flushed, flushed)?;
        write_atomic(&Self::path_of(partial), line.as_bytes(), 0o600)?;
        Self::go_on(partial)
    }

    /// Continues the existing record, where a full disk has no space for another one.
    pub fn go_on(partial: &Path) -> io::Result<Self> {
        let path = Self::path_of(partial);
        let file = OpenOptions::new().append(true).open(&path)?;
        let boot = boot_id();
        Ok(Self { path, file, boot })
    }

    /// Appends a line.
    pub fn add(&mut self, version: &Version, there: &Ranges, flushed: &Ranges) -> io::Result<()> {
        let line = line(self.boot.clone(), version, there, flushed)?;
        self.file.write_all(line.as_bytes())
    }

    /// Deletes the record.
    pub fn remove(&self) {
        // A record that stays has no meaning without its file; `cache gc` deletes it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns a line to append in one write. It starts with a line feed, since the line before may be
/// incomplete.
fn line(boot: String, version: &Version, there: &Ranges, flushed: &Ranges) -> io::Result<String> {
    let line = Line {
        boot,
        version: version.clone(),
        there: there.clone(),
        flushed: flushed.clone(),
    };
    Ok(format!("\n{}\n", serde_json::to_string(&line)?))
}

/// Returns the last readable line. The end of the file may be missing. After a power loss, any block may be
/// zeros.
fn last_line(path: &Path) -> Option<Line> {
    let mut last = None;
    let reader = BufReader::new(File::open(path).ok()?.take(LARGEST));
    for line in reader.split(b'\n') {
        if let Ok(line) = serde_json::from_slice(&line.ok()?) {
            last = Some(line);
        }
    }
    last
}

/// Returns the boot ID. If the kernel does not have one, each process counts as a boot of its own.
fn boot_id() -> String {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot_id.map_or_else(
        |_| format!("unknown-{}", std::process::id()),
        |id| id.trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str) -> Ranges {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn after_a_power_cut_only_what_was_flushed_counts() {
        let folder = tempfile::tempdir().unwrap();
        let partial = folder.path().join("abc");
        let version = Version {
            site: None,
            tag: Some("\"v1\"".into()),
            total: Some(90),
        };
        let mut record = Record::begin(&partial, &version, &ranges("[[0,10]]")).unwrap();
        record
            .add(&version, &ranges("[[0,30],[40,50]]"), &ranges("[[0,20]]"))
            .unwrap();
        let read = |length| Record::read(&partial, length);
        assert_eq!(read(50), (version.clone(), ranges("[[0,30],[40,50]]")));
        assert_eq!(read(49), (Version::default(), Ranges::default()));
        let path = Record::path_of(&partial);
        let text = std::fs::read_to_string(&path).unwrap();
        // Killed within a line: the line before is valid.
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert_eq!(read(50), (version.clone(), ranges("[[0,10]]")));
        std::fs::write(&path, text.replace(&boot_id(), "another-run")).unwrap();
        assert_eq!(read(50), (version, ranges("[[0,20]]")));
        std::fs::write(&path, [0u8; 4096]).unwrap();
        assert_eq!(read(50), (Version::default(), Ranges::default()));
    }
}
