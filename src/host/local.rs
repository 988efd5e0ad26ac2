//! The machine on which kubexm runs, as a host. Tests of steps use it.

use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use super::supervise::{self, Description, NoResult, Received, TooMuchOutput};
use super::{Command, Host, HostError, Input, Output, TunnelError, TunnelStream, forward};
use kubexm_scripts::host as scripts;
use kubexm_types::HostName;

/// Runs commands on this machine as the current user, or as root inside a folder that represents a
/// machine.
pub struct LocalHost {
    name: HostName,
    root: Option<PathBuf>,
}

/// Number of bytes that are read or written at once.
const PIECE: usize = 64 * 1024;

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

    /// Returns the program that runs words. It leads a process group of its own.
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
            .process_group(0);
        program
    }

    /// Runs a command to its end. Returns its exit status; what it prints is in `received`.
    async fn execute(
        &self,
        command: Command,
        description: &str,
        received: &mut Received,
    ) -> Result<i32, HostError> {
        let failed = |error: io::Error| self.failed(description, error.to_string());
        let words = supervise::words(&command);
        let mut child = self.program(&words).spawn().map_err(failed)?;
        let mut group = Group::of(&child, !command.continues);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let writing = async {
            let written = write_input(stdin, command.input).await;
            if written.is_err() {
                group.kill();
            }
            written
        };
        let (written, read) = tokio::join!(writing, read_output(stdout, stderr, received));
        written.map_err(|source| HostError::Input {
            host: self.name.clone(),
            command: description.to_owned(),
            source,
        })?;
        match read.map_err(failed)? {
            Ok(()) => {}
            Err(TooMuchOutput) => {
                return Err(self.failed(description, supervise::too_much_output()));
            }
        }
        let status = child.wait().await.map_err(failed)?;
        group.forget();
        Ok(status.code().unwrap_or(128))
    }

    fn failed(&self, description: &str, reason: String) -> HostError {
        HostError::Command {
            host: self.name.clone(),
            command: description.to_owned(),
            reason: reason.into(),
        }
    }
}

/// The process group of a command. It is killed when this value is dropped before the command's end.
struct Group {
    leader: Option<Pid>,
    ends: bool,
}

impl Group {
    fn of(child: &Child, ends: bool) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            leader: id.and_then(Pid::from_raw),
            ends,
        }
    }

    fn kill(&self) {
        if let Some(leader) = self.leader {
            // An error means that the group has ended.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    fn forget(&mut self) {
        self.leader = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ends {
            self.kill();
        }
    }
}

/// Reads both streams of a command to their ends.
async fn read_output(
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    received: &mut Received,
) -> io::Result<Result<(), TooMuchOutput>> {
    let (Some(mut stdout), Some(mut stderr)) = (stdout, stderr) else {
        return Ok(Ok(()));
    };
    let (mut printed, mut errors) = (vec![0u8; PIECE], vec![0u8; PIECE]);
    let (mut prints, mut complains) = (true, true);
    while prints || complains {
        tokio::select! {
            count = stdout.read(&mut printed), if prints => {
                let count = count?;
                prints = count > 0;
                if received.add_stdout(&printed[..count]).is_err() {
                    return Ok(Err(TooMuchOutput));
                }
            }
            count = stderr.read(&mut errors), if complains => {
                let count = count?;
                complains = count > 0;
                received.add_stderr(&errors[..count]);
            }
        }
    }
    Ok(Ok(()))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Writes the input to a command. A command may stop reading early: its exit status then decides whether that
/// is a failure.
///
/// # Errors
/// The input cannot be read to its end. The command must not use half of it.
async fn write_input(stdin: Option<ChildStdin>, input: Input) -> io::Result<()> {
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
            let mut buffer = vec![0u8; PIECE];
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
            Err(error) => return Err(error),
        }
    }
}

#[async_trait]
impl Host for LocalHost {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let described = Description::of(&command);
        let (limit, mut received) = (command.limit, Received::new());
        let running = self.execute(command, &described.text, &mut received);
        let result = match tokio::time::timeout(limit.time() + supervise::MARGIN, running).await {
            Ok(status) => received.output(status?, limit),
            Err(_) => Err(NoResult::TimedOut),
        };
        result.map_err(|cause| supervise::error(&self.name, described, &received, cause))
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
