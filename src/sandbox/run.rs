//! A run of a program.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::process::{LAUNCHER, REASON, UNPREPARED};
use crate::{LoopbackAnswer, Sandbox, SandboxError, Workspace};

/// A program, its arguments, and what it may use.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProgramRun {
    /// An absolute path below `/usr`, the inputs or `readable`.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// Files and directories that the program can read, in addition to the system's programs and libraries.
    pub readable: Vec<PathBuf>,
    /// The directory that the program can write, and its working directory.
    pub scratch: PathBuf,
    /// After this time, the program and its children are killed.
    pub limit: Duration,
    /// Maximum size of a file that the program writes in the sandbox, in bytes.
    pub largest_file: u64,
    /// Maximum number of bytes on standard output, and on standard error.
    pub largest_output: u64,
    /// A server in the network of the program.
    pub answer: Option<LoopbackAnswer>,
    pub(crate) inputs: PathBuf,
    pub(crate) root: PathBuf,
}

/// What a program printed, and how it ended.
#[derive(Debug, Clone)]
pub struct ProgramOutput {
    /// Whether its exit code was 0.
    pub is_success: bool,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// The rights of the init before it gives them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Identity {
    /// Root of the machine, or of the container of kubexm.
    Root,
    /// Root of a user namespace, which is the user of kubexm outside.
    Mapped,
}

/// What the processes of a sandbox get as their second argument.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Specification {
    pub identity: Identity,
    pub program: ProgramRun,
}

impl Specification {
    pub fn parse(text: Option<&OsStr>) -> Result<Self, String> {
        let text = text.and_then(OsStr::to_str).unwrap_or_default();
        serde_json::from_str(text).map_err(|error| format!("cannot read the argument: {error}"))
    }

    pub fn text(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

impl ProgramRun {
    /// Returns a run without arguments, with a new directory to write, which is also its home.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn new(workspace: &Workspace, program: PathBuf) -> io::Result<Self> {
        let scratch = workspace.scratch()?;
        let place = scratch.display().to_string();
        let environment = [
            ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", &place),
            ("TMPDIR", &place),
        ];
        Ok(Self {
            program,
            arguments: Vec::new(),
            environment: environment
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .into(),
            readable: Vec::new(),
            scratch,
            limit: Duration::from_secs(60),
            largest_file: 256 * 1024 * 1024,
            largest_output: 16 * 1024 * 1024,
            answer: None,
            inputs: workspace.inputs(),
            root: workspace.root(),
        })
    }

    /// Runs the program to its end. If the future is dropped, the program and its children are killed.
    ///
    /// # Errors
    /// The program cannot be isolated or started, or exceeds a limit.
    pub async fn output(self, sandbox: &Sandbox) -> Result<ProgramOutput, SandboxError> {
        let mut command = match sandbox {
            Sandbox::On { launcher } => {
                let specification = Specification {
                    identity: Identity::Mapped,
                    program: self.clone(),
                };
                let text = specification.text().map_err(io::Error::other)?;
                let mut command = Command::new(launcher);
                command
                    .env_clear()
                    .arg(LAUNCHER)
                    .arg(text)
                    .stdin(Stdio::piped());
                command
            }
            Sandbox::Off => {
                let mut command = Command::new(&self.program);
                command.args(&self.arguments).env_clear();
                command.envs(self.environment.iter().map(|(name, value)| (name, value)));
                command.current_dir(&self.scratch).stdin(Stdio::null());
                command
            }
        };
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        // The sandbox ends when this is dropped.
        let _alive = child.stdin.take();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let limit = self.largest_output;
        let run = async {
            let (stdout, stderr) = tokio::try_join!(read(out, limit), read(err, limit))?;
            Ok::<_, SandboxError>((child.wait().await?, stdout, stderr))
        };
        let ended = tokio::time::timeout(self.limit, run).await;
        let (status, stdout, stderr) = ended.map_err(|_| SandboxError::TimedOut(self.limit))??;
        let is_on = matches!(sandbox, Sandbox::On { .. });
        if is_on && status.code() == Some(i32::from(UNPREPARED)) {
            let text = String::from_utf8_lossy(&stderr);
            if let Some(reason) = text.lines().find_map(|line| line.strip_prefix(REASON)) {
                return Err(SandboxError::Unavailable(reason.to_owned()));
            }
        }
        Ok(ProgramOutput {
            is_success: status.success(),
            stdout,
            stderr,
        })
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> Result<Vec<u8>, SandboxError> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(limit + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > limit {
        Err(SandboxError::TooMuchOutput(limit))
    } else {
        Ok(bytes)
    }
}
