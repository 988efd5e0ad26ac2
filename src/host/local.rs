//! The machine on which kubexm runs, as a host. Tests of steps use it.

use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};

use super::{Command, Host, HostError, Input, Output, TunnelError, TunnelStream, forward};
use kubexm_scripts::host as scripts;
use kubexm_types::HostName;

/// Runs commands on this machine as the current user, or as root inside a folder that represents a
/// machine.
pub struct LocalHost {
    name: HostName,
    root: Option<PathBuf>,
}

/// Folders with programs. A folder that represents a machine shows them read-only.
const PROGRAMS: [&str; 5] = ["bin", "sbin", "lib", "lib32", "lib64"];

/// Further folders that every machine has.
const FOLDERS: [&str; 9] = [
    "usr",
    "dev",
    "proc",
    "etc/alternatives",
    "tmp",
    "run",
    "root",
    "var/lib",
    "var/tmp",
];

impl LocalHost {
    /// Returns this machine under a name.
    pub fn new(name: HostName) -> Self {
        Self { name, root: None }
    }

    /// Returns a folder as the root of a machine. Commands see this machine's programs in `/usr` and
    /// Debian's links to them in `/etc/alternatives`; everything else that they read and write is in
    /// the folder. Requires root or user namespaces.
    ///
    /// # Errors
    /// The folder cannot be written, or this machine's `/bin` is not a link into `/usr`.
    pub fn within(name: HostName, root: &Path) -> io::Result<Self> {
        for folder in FOLDERS {
            std::fs::create_dir_all(root.join(folder))?;
        }
        for folder in PROGRAMS {
            let Ok(target) = std::fs::read_link(Path::new("/").join(folder)) else {
                continue;
            };
            if std::fs::symlink_metadata(root.join(folder)).is_err() {
                symlink(target, root.join(folder))?;
            }
        }
        if !root.join("bin").is_symlink() {
            let message = "this machine's /bin is not a link into /usr";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        Ok(Self {
            name,
            root: Some(root.canonicalize()?),
        })
    }

    fn program(&self, argv: &[String]) -> tokio::process::Command {
        let mut program = match &self.root {
            None => tokio::process::Command::new(&argv[0]),
            Some(root) => {
                let mut program = tokio::process::Command::new("unshare");
                if !is_root() {
                    program.arg("--map-root-user");
                }
                program
                    .args(["--mount", "--"])
                    .args(["sh", "-euc", scripts::SANDBOX.text, "kubexm"])
                    .arg(root)
                    .arg(&argv[0]);
                program
            }
        };
        program.args(&argv[1..]);
        program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        program
    }

    async fn execute(
        &self,
        argv: &[String],
        input: Input,
        description: &str,
    ) -> Result<Output, HostError> {
        let failed = |error: io::Error| self.failed(description, error.to_string());
        let mut child = self.program(argv).spawn().map_err(failed)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (mut printed, mut errors) = (Vec::new(), Vec::new());
        let reading = async {
            let first = async {
                match stdout {
                    Some(mut stream) => stream.read_to_end(&mut printed).await,
                    None => Ok(0),
                }
            };
            let second = async {
                match stderr {
                    Some(mut stream) => stream.read_to_end(&mut errors).await,
                    None => Ok(0),
                }
            };
            tokio::try_join!(first, second)
        };
        let (written, read) = tokio::join!(write_input(&mut child, stdin, input), reading);
        written.map_err(|source| HostError::Input {
            host: self.name.clone(),
            command: description.to_owned(),
            source,
        })?;
        read.map_err(failed)?;
        let status = child.wait().await.map_err(failed)?;
        Ok(Output {
            status: status.code().unwrap_or(128),
            stdout: printed,
            stderr: errors,
            log: None,
        })
    }

    fn failed(&self, description: &str, reason: String) -> HostError {
        HostError::Command {
            host: self.name.clone(),
            command: description.to_owned(),
            reason,
        }
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Writes the input to a command. If the input cannot be read to its end, the command is killed, so
/// that it does not use half of it. A command may stop reading early: its exit status then decides
/// whether that is a failure.
async fn write_input(child: &mut Child, stdin: Option<ChildStdin>, input: Input) -> io::Result<()> {
    let Some(mut stdin) = stdin else {
        return Ok(());
    };
    let mut source: Box<dyn Read + Send> = match input {
        Input::None => return Ok(()),
        Input::Bytes(bytes) => Box::new(io::Cursor::new(bytes)),
        Input::Stream(stream) => stream,
    };
    loop {
        let (back, chunk) = tokio::task::spawn_blocking(move || {
            let mut buffer = vec![0u8; 64 * 1024];
            let chunk = source.read(&mut buffer).map(|count| {
                buffer.truncate(count);
                buffer
            });
            (source, chunk)
        })
        .await
        .map_err(io::Error::other)?;
        source = back;
        match chunk {
            Ok(chunk) if chunk.is_empty() => return Ok(()),
            Ok(chunk) => {
                if stdin.write_all(&chunk).await.is_err() {
                    return Ok(());
                }
            }
            Err(error) => {
                child.kill().await?;
                return Err(error);
            }
        }
    }
}

#[async_trait]
impl Host for LocalHost {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let description = command.description();
        let running = self.execute(&command.argv, command.input, &description);
        let Some(limit) = command.timeout else {
            return running.await;
        };
        tokio::time::timeout(limit, running)
            .await
            .unwrap_or_else(|_| {
                let reason = format!("exceeded the time limit of {} seconds", limit.as_secs());
                Err(self.failed(&description, reason))
            })
    }

    async fn open_tunnel(
        &self,
        target: &str,
        port: u16,
    ) -> Result<Box<dyn TunnelStream>, TunnelError> {
        let opening = tokio::net::TcpStream::connect((target, port));
        match tokio::time::timeout(forward::CONNECT_TIMEOUT, opening).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(_)) => Err(TunnelError::Refused),
            Err(_) => Err(TunnelError::TimedOut),
        }
    }
}
