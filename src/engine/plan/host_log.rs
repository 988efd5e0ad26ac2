//! The log file of a host on this machine: what its commands printed.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use kubexm_host::{Command, Host, HostError, Output, TunnelError, TunnelStream};
use kubexm_types::redacted;
use kubexm_types::untrusted::printable;
use kubexm_types::{HostName, UtcTime};

/// The folder of the log files in a state directory.
const FOLDER: &str = "logs";
/// The size in bytes from which a file gets the suffix `.1` and another one begins.
const LARGEST_FILE: u64 = 8 * 1024 * 1024;
/// The largest number of bytes of one stream that a command leaves in the file.
const LARGEST_OUTPUT: usize = 4 * 1024 * 1024;

/// A host whose failed commands leave their output in the log file. A command that succeeds leaves what it printed
/// to standard error.
///
/// A command whose output can be secret leaves only its exit status. Input, environment and arguments of commands
/// are never in the file.
pub struct LoggedHost {
    host: Arc<dyn Host>,
    path: PathBuf,
    file: Mutex<()>,
}

impl LoggedHost {
    /// Wraps a host. Its log file is `logs/HOST.log` in the state directory.
    pub fn new(host: Arc<dyn Host>, state: &Path) -> Self {
        let path = state.join(FOLDER).join(format!("{}.log", host.name()));
        // A message names the file, and its reader may be in another directory.
        let path = std::path::absolute(&path).unwrap_or(path);
        Self {
            host,
            path,
            file: Mutex::new(()),
        }
    }

    /// Appends a record. Returns the path of the file if it contains the record.
    fn log(&self, description: &str, is_secret: bool, output: &Output) -> Option<PathBuf> {
        let failed = !output.success();
        if !failed && output.stderr.is_empty() {
            return None;
        }
        let mut record = format!(
            "== {} {description}: exit status {}\n",
            UtcTime::now(),
            output.status
        );
        if is_secret {
            record.push_str("(the output can contain a secret and is not logged)\n");
        } else {
            for (name, stream) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
                if !stream.is_empty() && (failed || name == "stderr") {
                    record.push_str(&section(name, stream));
                }
            }
        }
        // Commands of one host run at the same time.
        let _guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        self.append(record.as_bytes()).ok()?;
        (!is_secret).then(|| self.path.clone())
    }

    fn append(&self, record: &[u8]) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(folder)?;
        }
        if std::fs::metadata(&self.path).is_ok_and(|file| file.len() >= LARGEST_FILE) {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        open(&self.path)?.write_all(record)
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(path)?;
    // The file may come from a time with another mode.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Returns a stream with its name, without control sequences and secrets. A text that is too long keeps its last lines: the name
/// of a secret can stand in front of it.
fn section(name: &str, stream: &[u8]) -> String {
    let left_out = match stream.len().saturating_sub(LARGEST_OUTPUT) {
        0 => 0,
        cut => {
            let line = stream[cut..].iter().position(|byte| *byte == b'\n');
            line.map_or(stream.len(), |end| cut + end + 1)
        }
    };
    let cut = match left_out {
        0 => String::new(),
        count => format!(" (the first {count} bytes are left out)"),
    };
    let text = printable(&String::from_utf8_lossy(&stream[left_out..]));
    format!("-- {name}{cut}\n{}", redacted::without(&text))
}

#[async_trait]
impl Host for LoggedHost {
    fn name(&self) -> &HostName {
        self.host.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let (description, is_secret) = (command.description(), command.has_secret_output());
        let mut output = self.host.run(command).await?;
        output.log = self.log(&description, is_secret, &output);
        Ok(output)
    }

    async fn settle(&self) {
        self.host.settle().await;
    }

    async fn open_tunnel(
        &self,
        target: &str,
        port: u16,
    ) -> Result<Box<dyn TunnelStream>, TunnelError> {
        self.host.open_tunnel(target, port).await
    }
}

#[cfg(test)]
mod tests {
    use kubexm_host::local::LocalHost;

    use super::*;
    use crate::plan::StepError;

    fn logged(state: &Path) -> LoggedHost {
        let host = LocalHost::new("node1".parse().unwrap());
        LoggedHost::new(Arc::new(host), state)
    }

    async fn failure(host: &LoggedHost, command: Command) -> String {
        let output = host.run(command.describe("a test")).await.unwrap();
        StepError::unless_done("a test", output)
            .unwrap_err()
            .to_string()
    }

    #[tokio::test]
    async fn error_is_short_and_names_the_file_with_the_whole_output() {
        let folder = tempfile::tempdir().unwrap();
        let host = logged(folder.path());
        let hostile = r#"printf '\033]0;PWNED\007\033[2J\342\200\256'; head -c 3000000 /dev/zero | tr '\0' x; exit 7"#;
        let error = failure(
            &host,
            Command::script(format!("{{ {hostile}; }} >&2"), [""; 0]),
        )
        .await;
        assert!(error.len() < 1000 && !error.contains("PWNED"), "{error}");
        let path = folder.path().join("logs/node1.log");
        let last = error.lines().last().unwrap();
        assert_eq!(last, format!("the whole output is in {}", path.display()));
        let log = std::fs::read_to_string(&path).unwrap();
        assert!(
            log.contains("a test: exit status 7\n-- stderr\nxxx"),
            "{}",
            &log[..200]
        );
        assert!(log.len() > 3_000_000 && !log.contains(['\u{1b}', '\u{202e}']));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }

    #[tokio::test]
    async fn secret_output_is_not_logged() {
        let folder = tempfile::tempdir().unwrap();
        let host = logged(folder.path());
        let script = "echo s3cret; echo s3cret >&2; exit 3";
        failure(&host, Command::script(script, [""; 0]).secret_output()).await;
        let log = std::fs::read_to_string(folder.path().join("logs/node1.log")).unwrap();
        assert!(
            log.contains("exit status 3") && !log.contains("s3cret"),
            "{log}"
        );
    }

    #[tokio::test]
    async fn secrets_in_other_output_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let host = logged(folder.path());
        let script = "echo 'run --token abcdef.planted890123456 failed' >&2; exit 3";
        failure(&host, Command::script(script, [""; 0])).await;
        let log = std::fs::read_to_string(folder.path().join("logs/node1.log")).unwrap();
        assert!(log.contains("run --token [redacted"), "{log}");
        assert!(!log.contains("planted"), "{log}");
    }

    #[test]
    fn long_output_is_cut_between_lines() {
        let line = format!("{}\n", "y".repeat(1023));
        let kept = line.repeat(LARGEST_OUTPUT / line.len() - 1) + &"y".repeat(1015) + "\n";
        let text = section("stderr", format!("password: PLANTED\n{kept}").as_bytes());
        assert!(!text.contains("TED"), "{}", &text[..80]);
        assert!(text.starts_with("-- stderr (the first 18 bytes are left out)\nyy"));
    }

    #[tokio::test]
    async fn files_have_a_largest_size() {
        let folder = tempfile::tempdir().unwrap();
        let host = logged(folder.path());
        for _ in 0..6 {
            let script =
                "yes \"$(head -c 9999 /dev/zero | tr '\\0' y)\" | head -c 6000000 >&2; exit 1";
            failure(&host, Command::script(script, [""; 0])).await;
        }
        let size = |name: &str| {
            std::fs::metadata(folder.path().join("logs").join(name))
                .unwrap()
                .len()
        };
        let most = LARGEST_FILE + LARGEST_OUTPUT as u64 + 200;
        assert!(size("node1.log") < most && size("node1.log.1") < most);
        let files = std::fs::read_dir(folder.path().join("logs")).unwrap();
        assert_eq!(files.count(), 2);
    }

    #[tokio::test]
    async fn successful_commands_leave_only_their_warnings() {
        let folder = tempfile::tempdir().unwrap();
        let host = logged(folder.path());
        host.run(Command::new("true")).await.unwrap();
        assert!(!folder.path().join("logs").exists());
        let script = "echo result; echo warning >&2";
        host.run(Command::script(script, [""; 0])).await.unwrap();
        let log = std::fs::read_to_string(folder.path().join("logs/node1.log")).unwrap();
        assert!(log.contains("warning") && !log.contains("result"), "{log}");
    }
}
