//! This machine as a host: what steps are tested on.

use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};

use super::{Command, DialError, Host, HostError, Input, Line, Output, forward};
use kubexm_scripts::host as scripts;
use kubexm_types::HostName;

/// Runs commands here, as the current user, or as root of a folder that stands for a machine.
pub struct LocalHost {
    name: HostName,
    root: Option<PathBuf>,
}

/// Where a machine's programs are. They are shown in a folder that stands for one, read-only.
const PROGRAMS: [&str; 5] = ["bin", "sbin", "lib", "lib32", "lib64"];

/// What a machine has besides.
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
    /// This machine under a name.
    pub fn new(name: HostName) -> Self {
        Self { name, root: None }
    }

    /// A folder as the root of a machine: commands find this machine's programs in `/usr` (and
    /// Debian's choice among them in `/etc/alternatives`), and all else that they see and write is
    /// in the folder. Works as root, and as another user where user namespaces are allowed.
    ///
    /// # Errors
    /// The folder cannot be written, or this machine keeps its programs elsewhere.
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
            let words = "this machine's /bin is no link into /usr";
            return Err(io::Error::new(io::ErrorKind::Unsupported, words));
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
        let (mut printed, mut complained) = (Vec::new(), Vec::new());
        let reading = async {
            let first = async {
                match stdout {
                    Some(mut stream) => stream.read_to_end(&mut printed).await,
                    None => Ok(0),
                }
            };
            let second = async {
                match stderr {
                    Some(mut stream) => stream.read_to_end(&mut complained).await,
                    None => Ok(0),
                }
            };
            tokio::try_join!(first, second)
        };
        let (fed, read) = tokio::join!(feed(&mut child, stdin, input), reading);
        fed.map_err(|source| HostError::Input {
            host: self.name.clone(),
            command: description.to_owned(),
            source,
        })?;
        read.map_err(failed)?;
        let status = child.wait().await.map_err(failed)?;
        Ok(Output {
            status: status.code().unwrap_or(128),
            stdout: printed,
            stderr: complained,
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

/// Gives a command its input. What cannot be read to its end kills the command first: it must not
/// take half for all. A command that stops reading says by its status whether that was right.
async fn feed(child: &mut Child, stdin: Option<ChildStdin>, input: Input) -> io::Result<()> {
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
                let reason = format!("not done after {} seconds", limit.as_secs());
                Err(self.failed(&description, reason))
            })
    }

    async fn dial(&self, target: &str, port: u16) -> Result<Box<dyn Line>, DialError> {
        let opening = tokio::net::TcpStream::connect((target, port));
        match tokio::time::timeout(forward::LIMIT, opening).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(_)) => Err(DialError::Refused),
            Err(_) => Err(DialError::Silent),
        }
    }
}
