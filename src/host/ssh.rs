//! Hosts over SSH: one connection a host, a channel a command.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use russh::client::{self, Handle};
use russh::{ChannelMsg, Disconnect};
use tokio::sync::{Semaphore, mpsc};

use super::authenticate;
use super::known_hosts::{HostKeys, Verdict};
use super::{Command, DialError, Host, HostError, Input, Line, Output, dial};
use crate::spec::HostName;
use crate::spec::cluster::Secret;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// sshd allows ten sessions on a connection unless told otherwise.
const SESSIONS: usize = 8;
/// Bytes that are read ahead of the line.
const CHUNK: usize = 60 * 1024;
/// A command's line: always the same environment, whatever the user's shell profile says.
const ENVIRONMENT: &str =
    "env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How to reach a host.
#[derive(Debug, Clone)]
pub struct SshOptions {
    /// Its name in the cluster.
    pub name: HostName,
    /// DNS name or IP address.
    pub address: String,
    /// Port.
    pub port: u16,
    /// User.
    pub user: String,
    /// Password, for SSH and for sudo.
    pub password: Option<Secret>,
    /// Private key; without it the agent and the user's own keys are tried.
    pub private_key: Option<PathBuf>,
    /// Which host keys are taken.
    pub host_keys: HostKeys,
}

/// A connected host.
pub struct SshHost {
    options: SshOptions,
    handle: Handle<Checker>,
    become_root: BecomeRoot,
    sessions: Semaphore,
}

/// How commands become root's.
enum BecomeRoot {
    /// The user is root.
    AlreadyRoot,
    /// `sudo` asks nothing.
    Sudo,
    /// `sudo` reads the password from the first line of standard input.
    SudoWithPassword(Secret),
}

struct Checker {
    address: String,
    port: u16,
    host_keys: HostKeys,
    verdict: Arc<std::sync::Mutex<Option<Verdict>>>,
}

impl client::Handler for Checker {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        presented: &russh::keys::PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let verdict = match presented {
            russh::keys::PublicKeyOrCertificate::PublicKey { key, .. } => {
                self.host_keys.judge(&self.address, self.port, key)
            }
            russh::keys::PublicKeyOrCertificate::Certificate(_) => Verdict::Refused(
                "it shows a host certificate, which kubexm does not check yet".to_owned(),
            ),
        };
        let accepted = matches!(verdict, Verdict::Known);
        if let Ok(mut place) = self.verdict.lock() {
            *place = Some(verdict);
        }
        Ok(accepted)
    }
}

impl SshHost {
    /// Connects, checks the host's key, logs in and finds out how to become root.
    pub async fn connect(options: SshOptions) -> Result<Self, HostError> {
        let config = client::Config {
            nodelay: true,
            window_size: 32 * 1024 * 1024,
            maximum_packet_size: 64 * 1024,
            keepalive_interval: Some(Duration::from_secs(15)),
            keepalive_max: 4,
            ..client::Config::default()
        };
        let verdict = Arc::default();
        let checker = Checker {
            address: options.address.clone(),
            port: options.port,
            host_keys: options.host_keys.clone(),
            verdict: Arc::clone(&verdict),
        };
        let address = (options.address.as_str(), options.port);
        let connecting = client::connect(Arc::new(config), address, checker);
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let mut handle = match connected {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) => {
                let refused = verdict.lock().ok().and_then(|mut place| place.take());
                return Err(match refused {
                    Some(Verdict::Refused(reason)) => HostError::HostKey {
                        host: options.name.clone(),
                        reason,
                    },
                    _ => unreachable(&options, &error.to_string()),
                });
            }
            Err(_) => {
                return Err(unreachable(
                    &options,
                    "no answer within 10 seconds; is it up, and is the port right?",
                ));
            }
        };
        authenticate::log_in(&mut handle, &options).await?;
        let mut host = Self {
            become_root: BecomeRoot::AlreadyRoot,
            sessions: Semaphore::new(SESSIONS),
            handle,
            options,
        };
        host.become_root = host.find_way_to_root().await?;
        Ok(host)
    }

    /// Ends the connection.
    pub async fn disconnect(&self) {
        let _ = self
            .handle
            .disconnect(Disconnect::ByApplication, "done", "en")
            .await;
    }

    async fn find_way_to_root(&self) -> Result<BecomeRoot, HostError> {
        if self.options.user == "root" {
            return Ok(BecomeRoot::AlreadyRoot);
        }
        // `-k` forgets what an earlier login left, so that the answer holds for every command.
        let plain = self
            .execute("sudo -k; sudo -n true", Input::None, None, "sudo")
            .await?;
        if plain.success() {
            return Ok(BecomeRoot::Sudo);
        }
        let denied = |reason: &str| HostError::Denied {
            host: self.options.name.clone(),
            user: self.options.user.clone(),
            reason: reason.to_owned(),
        };
        let Some(password) = &self.options.password else {
            return Err(denied(
                "sudo wants a password; give one in cluster.yaml, or allow NOPASSWD",
            ));
        };
        let input = Input::Bytes(format!("{}\n", password.0).into_bytes());
        let output = self
            .execute("sudo -k -S -p '' true", input, None, "sudo")
            .await?;
        if output.success() {
            return Ok(BecomeRoot::SudoWithPassword(password.clone()));
        }
        Err(denied(&format!("sudo refuses: {}", output.complaint())))
    }

    /// Runs one command line as the logged-in user.
    async fn execute(
        &self,
        line: &str,
        input: Input,
        prefix: Option<Vec<u8>>,
        description: &str,
    ) -> Result<Output, HostError> {
        let broken = |error: russh::Error| {
            unreachable(&self.options, &format!("the connection broke ({error})"))
        };
        let _session = self
            .sessions
            .acquire()
            .await
            .map_err(|_| broken(russh::Error::Disconnect))?;
        let channel = self.handle.channel_open_session().await.map_err(broken)?;
        channel.exec(true, line).await.map_err(broken)?;
        let (mut read, write) = channel.split();
        let sending = async {
            if let Some(first) = prefix {
                write.data_bytes(first).await.map_err(|_| None)?;
            }
            send(&write, input).await?;
            write.eof().await.map_err(|_| None)
        };
        let receiving = receive(&mut read);
        tokio::pin!(sending, receiving);
        let mut sent = None;
        let output = loop {
            tokio::select! {
                output = &mut receiving => break output,
                result = &mut sending, if sent.is_none() => sent = Some(result),
            }
            if let Some(Err(Some(source))) = sent {
                // What was to be sent could not be read: the command must not take half for all.
                let (host, command) = (self.options.name.clone(), description.to_owned());
                let _ = write.close().await;
                return Err(HostError::Input {
                    host,
                    command,
                    source,
                });
            }
        };
        output.ok_or_else(|| {
            unreachable(
                &self.options,
                &format!("the connection broke during: {description}"),
            )
        })
    }
}

/// Sends the input; `Err(None)` where the other side stopped reading, which its exit status tells.
async fn send(
    write: &russh::ChannelWriteHalf<client::Msg>,
    input: Input,
) -> Result<(), Option<std::io::Error>> {
    match input {
        Input::None => Ok(()),
        Input::Bytes(bytes) => {
            for chunk in bytes.chunks(CHUNK) {
                write
                    .data_bytes(Bytes::copy_from_slice(chunk))
                    .await
                    .map_err(|_| None)?;
            }
            Ok(())
        }
        Input::Stream(mut stream) => {
            let (sender, mut chunks) = mpsc::channel::<std::io::Result<Bytes>>(8);
            tokio::task::spawn_blocking(move || {
                loop {
                    let mut buffer = vec![0u8; CHUNK];
                    let chunk = match stream.read(&mut buffer) {
                        Ok(0) => return,
                        Ok(count) => {
                            buffer.truncate(count);
                            Ok(Bytes::from(buffer))
                        }
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                        Err(error) => Err(error),
                    };
                    let failed = chunk.is_err();
                    if sender.blocking_send(chunk).is_err() || failed {
                        return;
                    }
                }
            });
            while let Some(chunk) = chunks.recv().await {
                write
                    .data_bytes(chunk.map_err(Some)?)
                    .await
                    .map_err(|_| None)?;
            }
            Ok(())
        }
    }
}

/// Everything a command prints, and its status; `None` where the connection ended before it did.
async fn receive(read: &mut russh::ChannelReadHalf) -> Option<Output> {
    let mut output = Output {
        status: 0,
        stdout: Vec::new(),
        stderr: Vec::new(),
    };
    let mut status = None;
    while let Some(message) = read.wait().await {
        match message {
            ChannelMsg::Data { data } => keep(&mut output.stdout, &data),
            ChannelMsg::ExtendedData { data, .. } => keep(&mut output.stderr, &data),
            ChannelMsg::ExitStatus { exit_status } => status = i32::try_from(exit_status).ok(),
            ChannelMsg::ExitSignal { signal_name, .. } => {
                keep(
                    &mut output.stderr,
                    format!("killed by signal {signal_name:?}").as_bytes(),
                );
                status = Some(128);
            }
            _ => {}
        }
    }
    output.status = status?;
    Some(output)
}

fn keep(stream: &mut Vec<u8>, data: &[u8]) {
    let room = Output::LIMIT.saturating_sub(stream.len());
    stream.extend_from_slice(&data[..data.len().min(room)]);
}

fn unreachable(options: &SshOptions, reason: &str) -> HostError {
    HostError::Unreachable {
        host: options.name.clone(),
        address: format!("{}:{}", options.address, options.port),
        reason: reason.to_owned(),
    }
}

/// Quotes one word for a POSIX shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[async_trait]
impl Host for SshHost {
    fn name(&self) -> &HostName {
        &self.options.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let description = command.description();
        let words: Vec<String> = command.argv.iter().map(|word| quote(word)).collect();
        let line = format!("{ENVIRONMENT} {}", words.join(" "));
        let (line, prefix) = match &self.become_root {
            BecomeRoot::AlreadyRoot => (line, None),
            BecomeRoot::Sudo => (format!("sudo -n -- {line}"), None),
            BecomeRoot::SudoWithPassword(password) => {
                let first = format!("{}\n", password.0).into_bytes();
                (format!("sudo -k -S -p '' -- {line}"), Some(first))
            }
        };
        let running = self.execute(&line, command.input, prefix, &description);
        match command.timeout {
            None => running.await,
            Some(limit) => tokio::time::timeout(limit, running)
                .await
                .unwrap_or_else(|_| {
                    Err(HostError::Command {
                        host: self.options.name.clone(),
                        command: description.clone(),
                        reason: format!("not done after {} seconds", limit.as_secs()),
                    })
                }),
        }
    }

    async fn dial(&self, target: &str, port: u16) -> Result<Box<dyn Line>, DialError> {
        dial::through(&self.handle, target, port).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_survives_a_shell() {
        for word in [
            "",
            "a b",
            "it's",
            "$(reboot)",
            "`x`",
            "a\nb",
            "\\",
            "'; rm -rf /; '",
        ] {
            let script = format!("printf %s {}", quote(word));
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
