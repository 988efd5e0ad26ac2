//! The controller's state directory of a cluster: the journal of all commands, and a lock that admits one
//! command at a time.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fs4::fs_std::FileExt;
use serde_json::json;

use kubexm_types::event::{Event, Listener};
use kubexm_types::{Digest, HostName, UtcTime, untrusted, write_atomic};

/// The state directory of a cluster, locked by one command at a time.
pub struct Journal {
    folder: PathBuf,
    file: Mutex<File>,
    // Locked until the command ends.
    lock: File,
}

impl Drop for Journal {
    /// Without this, a program that is being started would keep the lock with its copy of the file until it runs.
    fn drop(&mut self) {
        let _ = FileExt::unlock(&self.lock);
    }
}

impl Journal {
    /// Creates and locks the state directory of a cluster.
    ///
    /// # Errors
    /// The directory cannot be written, or another command has the lock.
    pub fn open(folder: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let open = |name: &str| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(folder.join(name))
        };
        let lock = open("lock")?;
        if !FileExt::try_lock_exclusive(&lock)? {
            let message = format!(
                "another kubexm process works on this cluster (it has locked {})",
                folder.join("lock").display()
            );
            return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
        }
        Ok(Self {
            folder: folder.to_owned(),
            file: Mutex::new(open("journal.jsonl")?),
            lock,
        })
    }

    /// Returns the state directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a value that only runs with this state directory on this machine have, for [`HostLocks`]: while
    /// this journal is open, no other process can open a journal of the same origin.
    ///
    /// Two machines that share or copy a state directory have different origins, and so have two directories
    /// of one machine.
    ///
    /// [`HostLocks`]: crate::cluster::HostLocks
    pub fn origin(&self) -> Digest {
        // Without a boot ID the origin is of this process only.
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .unwrap_or_else(|_| std::process::id().to_string());
        let file = self.lock.metadata();
        let file = file.map_or((0, 0), |file| (file.dev(), file.ino()));
        Digest::of(format!("{boot} {file:?}").as_bytes())
    }

    /// Returns the hosts on which runs with this state directory began a step.
    pub fn hosts(folder: &Path) -> BTreeSet<HostName> {
        #[derive(serde::Deserialize)]
        struct Line {
            event: String,
            host: Option<HostName>,
        }
        let Ok(file) = File::open(folder.join("journal.jsonl")) else {
            return BTreeSet::new();
        };
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        let lines = lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok());
        lines
            .filter(|line| line.event == "step")
            .filter_map(|line| line.host)
            .collect()
    }

    /// Returns the digest of the lock of the bundle of the last command that ran steps on hosts; `None` if none did. A command that
    /// was refused before its first step does not count, nor do the commands `except`.
    pub fn last_bundle(folder: &Path, except: &[&str]) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Line {
            event: String,
            #[serde(default)]
            command: String,
            #[serde(default)]
            bundle: String,
        }
        let file = File::open(folder.join("journal.jsonl")).ok()?;
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        let lines = lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok());
        let (mut begun, mut last) = (None, None);
        for line in lines {
            match line.event.as_str() {
                "run" if line.bundle.is_empty() || except.contains(&line.command.as_str()) => {
                    begun = None
                }
                "run" => begun = Some(line.bundle),
                "step" => last = begun.take().or(last),
                _ => {}
            }
        }
        last
    }

    /// Writes a secret file to the state directory, with mode 0600, and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        write_atomic(&path, content, 0o600)?;
        Ok(path)
    }

    /// Appends a line that states that a command started.
    pub fn begin(&self, command: &str, bundle: &str) {
        self.append(
            &json!({"event": "run", "command": command, "bundle": bundle,
            "kubexm": env!("CARGO_PKG_VERSION")}),
        );
    }

    fn append(&self, line: &serde_json::Value) {
        let mut line = line.clone();
        if let Some(fields) = line.as_object_mut() {
            fields.insert("time".to_owned(), UtcTime::now().to_string().into());
        }
        if let Ok(mut file) = self.file.lock() {
            // The journal is for people. A command must not fail because kubexm cannot write it.
            let _ = writeln!(file, "{}", untrusted::json(&line.to_string()));
        }
    }
}

impl Listener for Journal {
    fn on(&self, event: &Event) {
        if matches!(event, Event::TransferAdvanced { .. }) {
            return;
        }
        if let Ok(line) = serde_json::to_value(event) {
            self.append(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use kubexm_types::event::StepState;
    use std::time::Duration;

    #[test]
    fn journal_is_locked_by_one_command_and_records_events() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state/mine");
        let journal = Journal::open(&folder).unwrap();
        let Err(held) = Journal::open(&folder) else {
            panic!("two runs at once")
        };
        let place = folder.display().to_string();
        insta::assert_snapshot!(held.to_string().replace(&place, "[folder]"), @"another kubexm process works on this cluster (it has locked [folder]/lock)");
        journal.begin("install", "b.tar.zst");
        journal.on(&Event::TransferAdvanced { id: 1, bytes: 5 });
        assert_eq!(Journal::last_bundle(&folder, &["registry add"]), None);
        let step = Event::Step {
            host: "node1".parse().unwrap(),
            module: "runtime".to_owned(),
            task: "install".to_owned(),
            step: "Write a file".to_owned(),
            state: StepState::Started,
            elapsed: Duration::ZERO,
        };
        journal.on(&step);
        journal.on(&Event::Note {
            message: "not done: m/join@b: \"x\"\n".to_owned(),
        });
        journal.save("admin.conf", b"secret").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        for name in ["admin.conf", "journal.jsonl"] {
            assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
        }
        // As in a child between fork(2) and execve(2).
        let copy = journal.lock.try_clone().unwrap();
        drop(journal);
        // A second command appends to the same file.
        Journal::open(&folder).unwrap().begin("reset", "");
        drop(copy);
        Journal::open(&folder)
            .unwrap()
            .begin("registry add", "apps");
        // Preflight refuses an install.
        Journal::open(&folder).unwrap().begin("install", "other");
        let text = std::fs::read_to_string(folder.join("journal.jsonl")).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let tags: Vec<_> = lines
            .iter()
            .map(|line| line["event"].as_str().unwrap())
            .collect();
        assert_eq!(tags, ["run", "step", "note", "run", "run", "run"]);
        assert_eq!(
            Journal::last_bundle(&folder, &["registry add"]).unwrap(),
            "b.tar.zst"
        );
        assert_eq!(Journal::last_bundle(Path::new("/nothing/here"), &[]), None);
        assert_eq!(lines[2]["message"], "not done: m/join@b: \"x\"\n");
        assert!(lines.iter().all(|line| line["time"].is_string()));
    }
}
