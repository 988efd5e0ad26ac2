//! Connections of the system's `ssh` (ssh(1)), with the user's configuration: Kerberos, security keys, ProxyCommand.
//!
//! One master process holds the connection of a host (ControlMaster of ssh_config(5)). Each command and each tunnel is a
//! client process of its own, because the protocol between both belongs to OpenSSH.

mod client;

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use tokio::process::Command;
use tokio::sync::Semaphore;

use super::authenticate::{LOGIN_TIMEOUT, too_slow};
use super::known_hosts::HostKeys;
use super::server::{DEFAULT_PORT, Server, ServerError};
use kubexm_types::{Message, Untrusted};

/// How the system's `ssh` connects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenSsh {
    /// The configuration file instead of `~/.ssh/config`.
    pub config: Option<PathBuf>,
    /// The user and the port of the cluster file; `None` for those of the configuration.
    pub user: Option<String>,
    pub port: Option<u16>,
}

/// The options and the destination of a client. It reads no configuration, asks for no port to be forwarded, and connects to the
/// master: without one, it ends.
const CLIENT: [&str; 8] = [
    "-F",
    "/dev/null",
    "-o",
    "BatchMode=yes",
    "-o",
    "ProxyCommand=false",
    "--",
    "kubexm.invalid",
];
/// The number of masters that log in at the same time: a jump host refuses more at random (`MaxStartups`).
const LOGINS: usize = 5;
static STARTING: Semaphore = Semaphore::const_new(LOGINS);
/// The directories of the masters that run.
static MASTERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Settings of the user's configuration that would change what a command gets, or give the host more than a command.
const SETTINGS: [&str; 14] = [
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ConnectTimeout=10",
    "EscapeChar=none",
    "ForwardAgent=no",
    "ForwardX11=no",
    "LogLevel=INFO",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ServerAliveCountMax=3",
    "ServerAliveInterval=10",
    "Tunnel=no",
    "UpdateHostKeys=no",
];

/// The options of a client that ends the master.
const EXIT: [&str; 2] = ["-O", "exit"];
/// The number of bytes at the end of the log that are read.
const LOG: u64 = 64 * 1024;
/// The file of the socket in the directory of a master.
const SOCKET: &str = "socket";
/// How long the connection of a kubexm that was killed stays. While kubexm runs, a command that holds a lock asks each host more
/// often, and no other one waits so long between two commands.
const PERSIST: &str = "ControlPersist=15m";

/// The process that holds the connection. It ends with this value.
pub(super) struct Master {
    /// Has the socket of the master and its log.
    directory: tempfile::TempDir,
}

impl OpenSsh {
    /// Returns the server that the configuration means by `server`, for messages, and the name and the port of its keys in known
    /// hosts.
    ///
    /// # Errors
    /// `ssh` is not installed, or refuses the configuration.
    pub(super) async fn resolve(
        &self,
        server: &Server,
    ) -> Result<(Server, (String, u16)), ServerError> {
        let mut command = ssh();
        command.arg("-G").args(self.destination(server));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = tokio::time::timeout(LOGIN_TIMEOUT, command.output());
        let Ok(output) = running.await else {
            let reason = too_slow("reading the SSH configuration with ssh -G");
            return Err(ServerError::Unreachable(reason));
        };
        let output = output.map_err(not_started)?;
        if !output.status.success() {
            let printed = String::from_utf8_lossy(&output.stderr);
            return Err(ServerError::Unreachable(said(&printed).hint(
                "correct the SSH configuration; `ssh -G HOST` prints what it means",
            )));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(name, _)| *name == key);
            found.map(|(_, value)| value.to_owned())
        };
        let port = value("port").and_then(|port| port.parse().ok());
        let server = Server {
            address: value("hostname").unwrap_or_else(|| server.address.clone()),
            port: port.unwrap_or(server.port),
            user: value("user").unwrap_or_else(|| server.user.clone()),
            ..server.clone()
        };
        // `ssh` records the key of an alias without a port.
        let alias = value("hostkeyalias").filter(|alias| alias != "none");
        let recorded = match alias {
            Some(alias) => (alias, DEFAULT_PORT),
            None => (server.address.clone(), server.port),
        };
        Ok((server, recorded))
    }

    /// Returns the options and the name of a server.
    fn destination(&self, server: &Server) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut add = |option: &str, value: OsString| words.extend([option.into(), value]);
        if let Some(file) = &self.config {
            add("-F", file.into());
        }
        if let Some(user) = &self.user {
            add("-l", user.into());
        }
        if let Some(port) = self.port {
            add("-p", port.to_string().into());
        }
        if let Some(key) = &server.private_key {
            add("-o", "IdentitiesOnly=yes".into());
            add("-i", key.into());
        }
        words.extend(["--".into(), server.address.clone().into()]);
        words
    }
}

impl Master {
    /// Connects to a server. `ssh` verifies its key and logs in. `user` is the one that it resolves, for errors.
    ///
    /// # Errors
    /// `ssh` does not connect: the cause is what it printed.
    pub(super) async fn start(
        openssh: &OpenSsh,
        (server, user): (&Server, &str),
        host_keys: &HostKeys,
    ) -> Result<Self, ServerError> {
        let failed = |error: std::io::Error| {
            let reason = Message::quoting(format!("cannot create a directory for ssh: {error}"));
            ServerError::Unreachable(reason)
        };
        let _login = STARTING.acquire().await;
        let directory = tempfile::Builder::new()
            .prefix("kubexm-ssh-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(failed)?;
        let master = Self { directory };
        masters(|all| all.push(master.directory.path().to_owned()));
        let mut has_started = master.log_in(openssh, server, host_keys, PERSIST).await?;
        // With ControlPersist, ssh hides what a ProxyCommand prints.
        if !has_started && master.printed().contains("UNKNOWN") {
            let persist = "ControlPersist=no";
            has_started = master.log_in(openssh, server, host_keys, persist).await?;
        }
        if has_started {
            Ok(master)
        } else {
            Err(refused(&master.reason(), user))
        }
    }

    /// Starts the process, which goes into the background after the login. Returns whether it did.
    async fn log_in(
        &self,
        openssh: &OpenSsh,
        server: &Server,
        host_keys: &HostKeys,
        persist: &str,
    ) -> Result<bool, ServerError> {
        // What a former attempt printed is of no interest.
        std::fs::write(self.log(), "").map_err(not_started)?;
        let log = File::options().append(true).open(self.log());
        let mut command = ssh();
        // `ssh` appends to it, and prints what is wrong with its options before it knows the file.
        command.stderr(log.map_err(not_started)?);
        command.arg("-E").arg(self.log());
        command.arg("-S").arg(self.directory.path().join(SOCKET));
        command.args(["-M", "-f", "-N", "-T", "-o", persist]);
        for setting in SETTINGS {
            command.args(["-o", setting]);
        }
        for setting in host_key_settings(host_keys) {
            command.args(["-o", &setting]);
        }
        command.args(openssh.destination(server));
        match tokio::time::timeout(LOGIN_TIMEOUT, command.status()).await {
            Ok(Ok(status)) => Ok(status.success()),
            Ok(Err(error)) => Err(not_started(error)),
            Err(_) => Err(ServerError::Unreachable(too_slow("the login of ssh"))),
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Returns what the master has printed, without the start of a long text: the server decides how long its greeting is.
    fn printed(&self) -> String {
        let end = || {
            let mut log = File::open(self.log())?;
            let length = log.metadata()?.len();
            log.seek(SeekFrom::Start(length.saturating_sub(LOG)))?;
            let mut bytes = Vec::new();
            log.take(LOG).read_to_end(&mut bytes)?;
            Ok::<_, std::io::Error>(bytes)
        };
        String::from_utf8_lossy(&end().unwrap_or_default()).into_owned()
    }

    /// Returns what the master printed last.
    fn reason(&self) -> Message {
        said(&self.printed())
    }

    /// Returns a client of the master with these options.
    fn client<'a>(&self, options: impl IntoIterator<Item = &'a str>) -> Command {
        client_of(self.directory.path(), options)
    }

    /// Returns whether the master answers.
    async fn is_connected(&self) -> bool {
        let asked = self.client(["-O", "check"]).status().await;
        asked.is_ok_and(|status| status.success())
    }

    /// Returns why the connection does not work.
    pub(super) async fn broken(&self) -> Message {
        if self.is_connected().await {
            Message::new("ssh ended without a reason")
        } else {
            self.reason()
        }
    }

    /// Ends the connection.
    pub(super) async fn end(&self) {
        let _ = self.client(EXIT).status().await;
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        masters(|all| all.retain(|directory| directory != self.directory.path()));
        // The connection ends with kubexm, also if the master does not answer.
        let _ = self.client(EXIT).into_std().status();
    }
}

/// Ends all connections, before kubexm ends in the middle of its work.
pub fn end_all() {
    let directories = masters(std::mem::take);
    let ends = directories
        .iter()
        .map(|directory| client_of(directory, EXIT).into_std().spawn());
    let ends: Vec<_> = ends.collect();
    for mut end in ends.into_iter().flatten() {
        let _ = end.wait();
    }
    for directory in directories {
        let _ = std::fs::remove_dir_all(directory);
    }
}

/// Returns a client of the master with this directory.
fn client_of<'a>(directory: &Path, options: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = ssh();
    command.arg("-S").arg(directory.join(SOCKET));
    command.args(options).args(CLIENT);
    command
}

fn masters<T>(change: impl FnOnce(&mut Vec<PathBuf>) -> T) -> T {
    change(&mut MASTERS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns `ssh` in a session of its own. Ctrl-C in a terminal is for kubexm, which ends commands on the hosts first; and an `ssh`
/// to a jump host cannot ask on the terminal, where questions about several hosts would mix.
fn ssh() -> Command {
    let mut command = Command::new("setsid");
    command.arg("ssh").env("SSH_ASKPASS_REQUIRE", "never");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.kill_on_drop(true);
    command
}

/// Returns the settings for the check of the host's key, with the files that kubexm itself reads.
fn host_key_settings(host_keys: &HostKeys) -> Vec<String> {
    let check = match host_keys.accept_new {
        Some(_) => "accept-new",
        None => "yes",
    };
    // OpenSSH adds a key to the first file, and replaces `%` in names.
    let files = host_keys.accept_new.iter().chain(&host_keys.files);
    let files: Vec<String> = files
        .map(|file| format!("\"{}\"", file.display().to_string().replace('%', "%%")))
        .collect();
    vec![
        format!("StrictHostKeyChecking={check}"),
        format!("UserKnownHostsFile={}", files.join(" ")),
    ]
}

/// Returns the last lines that `ssh` printed. Lines before them may be the greeting of the server.
fn said(printed: &str) -> Message {
    Message::quoting(match Untrusted::last(printed) {
        last if last.as_str().is_empty() => "ssh printed no reason".to_owned(),
        last => last.to_string(),
    })
}

fn not_started(error: std::io::Error) -> ServerError {
    ServerError::Unreachable(message_of(&error))
}

fn message_of(error: &std::io::Error) -> Message {
    let reason = Message::quoting(format!("cannot run ssh: {error}"));
    reason
        .hint("install OpenSSH's client on this machine, or remove transport from the cluster file")
}

/// Returns the error of a connection that `ssh` did not make, by what it printed.
fn refused(printed: &Message, user: &str) -> ServerError {
    let text = printed.to_string();
    if text.contains("Host key verification failed") {
        let hint = "compare the key on the host (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, \
                    or pass --accept-new-host-keys; remove the line of a host that was reinstalled";
        ServerError::HostKey(printed.clone().hint(hint))
    } else if text.contains("Permission denied") {
        let hint = "ssh cannot ask here: add the key to the agent with ssh-add, or get a ticket with kinit; \
                    `ssh -v HOST true` shows each method";
        ServerError::Denied {
            user: user.to_owned(),
            reason: printed.clone().hint(hint),
        }
    } else {
        let hint = "check address and port in the cluster file and the SSH configuration; `ssh -v HOST true` shows each step";
        ServerError::Unreachable(printed.clone().hint(hint))
    }
}
