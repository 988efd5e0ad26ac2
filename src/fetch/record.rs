//! What is known about a download that did not come to its end, beside its bytes.
//!
//! `partial/<key>.record` holds one JSON object a line, each a whole record; the last one that can
//! be read holds. A line is added after the bytes that it speaks of were written, so a process may
//! be killed between any two system calls: what the last line names is in the file. A machine may
//! lose its power as well, and then nothing is sure but what was flushed: so a line says in which
//! run of the machine it was written, and which bytes were flushed before.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ranges::Ranges;
use kubexm_types::write_atomic;

/// A record that has grown beyond this is none of ours.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Which version of a file a partial one belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The address that was asked, without user and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// What the server calls these bytes (a strong `ETag`), for `If-Range`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// How many bytes there will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// One line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Line {
    /// The run of the machine, from the kernel.
    boot: String,
    #[serde(flatten)]
    version: Version,
    /// Bytes that were written.
    there: Ranges,
    /// Bytes that were flushed to the disk.
    flushed: Ranges,
}

/// The record of one partial file, open for more lines.
pub(super) struct Record {
    path: PathBuf,
    file: File,
    boot: String,
}

impl Record {
    /// Where the record of a partial file lies.
    pub fn path_of(partial: &Path) -> PathBuf {
        partial.with_extension("record")
    }

    /// What is known of a partial file of `length` bytes; nothing where nothing is sure.
    pub fn read(partial: &Path, length: u64) -> (Version, Ranges) {
        let line = last_line(&Self::path_of(partial)).unwrap_or_default();
        let ranges = match line.boot == boot_id() {
            true => line.there,
            false => line.flushed,
        };
        // Somebody has cut the file off: what the record says of it is not to be believed.
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

    /// Adds a line.
    pub fn add(&mut self, version: &Version, there: &Ranges, flushed: &Ranges) -> io::Result<()> {
        let line = line(self.boot.clone(), version, there, flushed)?;
        self.file.write_all(line.as_bytes())
    }

    /// Takes the record away.
    pub fn remove(&self) {
        // One that stays says nothing without its file, and `cache gc` finds it.
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

/// The last line that can be read. The end of the last one may be missing, and after a power cut any
/// block of the file may be zeros.
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

/// Names this run of the machine. Where the kernel does not say, no two runs of kubexm are in the
/// same one.
fn boot_id() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    told.map_or_else(
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
        // Killed within a line: the line before holds.
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert_eq!(read(50), (version.clone(), ranges("[[0,10]]")));
        std::fs::write(&path, text.replace(&boot_id(), "another-run")).unwrap();
        assert_eq!(read(50), (version, ranges("[[0,20]]")));
        std::fs::write(&path, [0u8; 4096]).unwrap();
        assert_eq!(read(50), (Version::default(), Ranges::default()));
    }
}
