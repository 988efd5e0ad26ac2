//! Hosts over SSH: one connection per host, one channel per command.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use russh::Disconnect;
use russh::client::Handle;
use tokio::sync::Semaphore;

use super::authenticate;
use super::channel::{receive, send};
use super::known_hosts::HostKeys;
use super::transport::{self, Connection, DisconnectReason, Handler, unreachable};
use super::{Command, Host, HostError, Input, Output, Reason, TunnelError, TunnelStream, forward};
use kubexm_types::HostName;
use kubexm_types::Secret;

/// The time for a login and for the check of sudo. PAM waits for seconds after a wrong password.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of parallel channels. sshd allows ten per connection by default (MaxSessions).
const SESSIONS: usize = 8;
/// Separates what the user's shell profile prints from the output of the command.
const MARK: &str = "kubexm: output begins";
/// Sets the same environment for every command, independent of the user's shell profile.
const ENVIRONMENT: &str =
    "env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How to connect to a host.
#[derive(Debug, Clone)]
pub struct SshOptions {
    /// The host's name in the cluster file.
    pub name: HostName,
    /// DNS name or IP address.
    pub address: String,
    pub port: u16,
    pub user: String,
    /// The password for SSH and for sudo.
    pub password: Option<Secret>,
    /// The private key. Without it, kubexm tries the user's own keys and ssh-agent.
    pub private_key: Option<PathBuf>,
    /// Which host keys are accepted.
    pub host_keys: HostKeys,
}

/// A connected host.
pub struct SshHost {
    options: SshOptions,
    handle: Handle<Handler>,
    disconnect: DisconnectReason,
    become_root: BecomeRoot,
    sessions: Semaphore,
}

/// How commands get root's permissions.
enum BecomeRoot {
    /// The user is root already.
    AlreadyRoot,
    /// `sudo` requires no password.
    Sudo,
    /// `sudo` reads the password from the first line of standard input.
    SudoWithPassword(Secret),
}

impl SshHost {
    /// Connects, verifies the host's key, logs in, and determines how commands get root's permissions.
    pub async fn connect(options: SshOptions) -> Result<Self, HostError> {
        let Connection {
            mut handle,
            disconnect,
        } = transport::connect(&options).await?;
        let logging_in = authenticate::log_in(&mut handle, &options);
        let logged_in = tokio::time::timeout(LOGIN_TIMEOUT, logging_in).await;
        match logged_in {
            // The reason for the disconnect is more precise than the method that was tried last.
            Ok(Err(HostError::Denied { reason, .. })) if handle.is_closed() => {
                let closed = disconnect.or("the host closed the connection");
                return Err(denied(&options, reason.within(&closed.to_string())));
            }
            Ok(result) => result?,
            Err(_) => return Err(too_slow(&options, "the login")),
        }
        let mut host = Self {
            become_root: BecomeRoot::AlreadyRoot,
            sessions: Semaphore::new(SESSIONS),
            handle,
            disconnect,
            options,
        };
        let probing = host.probe_root();
        host.become_root = match tokio::time::timeout(LOGIN_TIMEOUT, probing).await {
            Ok(result) => result?,
            Err(_) => return Err(too_slow(&host.options, "sudo")),
        };
        Ok(host)
    }

    /// Ends the connection.
    pub async fn disconnect(&self) {
        let _ = self
            .handle
            .disconnect(Disconnect::ByApplication, "done", "en")
            .await;
    }

    /// Determines whether sudo is needed, and whether it requires a password.
    async fn probe_root(&self) -> Result<BecomeRoot, HostError> {
        if self.options.user == "root" {
            return Ok(BecomeRoot::AlreadyRoot);
        }
        let has_sudo = self
            .execute("command -v sudo", Input::None, None, "look for sudo")
            .await?;
        if !has_sudo.success() {
            let reason = Reason::new("the host does not have sudo");
            return Err(denied(
                &self.options,
                reason.hint("install sudo on the host, or log in as root"),
            ));
        }
        // `-k` drops cached credentials of an earlier login, so that the answer is valid for every
        // command. Sudo rules may allow only some programs; every command starts with `env`.
        let plain = self
            .execute("sudo -k; sudo -n -- env true", Input::None, None, "sudo")
            .await?;
        if plain.success() {
            return Ok(BecomeRoot::Sudo);
        }
        let Some(password) = &self.options.password else {
            let reason = Reason::new("sudo requires a password");
            let hint =
                "set password for the host in the cluster file, or allow NOPASSWD in sudoers";
            return Err(denied(&self.options, reason.hint(hint)));
        };
        let input = Input::Bytes(format!("{}\n", password.0).into_bytes());
        let output = self
            .execute("sudo -k -S -p '' -- env true", input, None, "sudo")
            .await?;
        if output.success() {
            return Ok(BecomeRoot::SudoWithPassword(password.clone()));
        }
        let complaint = output.complaint();
        if complaint.as_str().contains("incorrect password") {
            let reason = Reason::new("sudo refuses the password of the cluster file");
            return Err(denied(
                &self.options,
                reason.hint("correct password for the host in the cluster file"),
            ));
        }
        let reason = Reason::new(format!("sudo failed: {complaint}"));
        Err(denied(
            &self.options,
            reason.hint("allow the user to run every command in sudoers"),
        ))
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
            let reason = self.disconnect.or(&error.to_string());
            unreachable(&self.options, reason.within("the connection broke"))
        };
        let _session = self
            .sessions
            .acquire()
            .await
            .map_err(|_| broken(russh::Error::Disconnect))?;
        let channel = self.handle.channel_open_session().await.map_err(broken)?;
        let line = format!("echo '{MARK}'; {line}");
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
                // The input could not be read: the command must not use half of it.
                let (host, command) = (self.options.name.clone(), description.to_owned());
                let _ = write.close().await;
                return Err(HostError::Input {
                    host,
                    command,
                    source,
                });
            }
        };
        let Some(mut output) = output else {
            let reason = self.disconnect.or("the host disappeared");
            let context = format!("the connection broke during '{description}'");
            return Err(unreachable(&self.options, reason.within(&context)));
        };
        if strip_mark(&mut output.stdout) {
            return Ok(output);
        }
        Err(HostError::Command {
            host: self.options.name.clone(),
            command: description.to_owned(),
            reason: format!(
                "the user {} does not get a shell on the host: {}",
                self.options.user,
                output.complaint()
            ),
        })
    }
}

/// Removes everything up to the mark. Returns `false` if there is no mark.
fn strip_mark(stdout: &mut Vec<u8>) -> bool {
    let mark = format!("{MARK}\n");
    let found = stdout
        .windows(mark.len())
        .position(|window| window == mark.as_bytes());
    if let Some(at) = found {
        stdout.drain(..at + mark.len());
    }
    found.is_some()
}

fn denied(options: &SshOptions, reason: Reason) -> HostError {
    HostError::Denied {
        host: options.name.clone(),
        user: options.user.clone(),
        reason,
    }
}

fn too_slow(options: &SshOptions, what: &str) -> HostError {
    let seconds = LOGIN_TIMEOUT.as_secs();
    unreachable(
        options,
        Reason::new(format!(
            "{what} exceeded the time limit of {seconds} seconds"
        )),
    )
}

/// Quotes a word for a POSIX shell.
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
                        reason: format!("exceeded the time limit of {} seconds", limit.as_secs()),
                    })
                }),
        }
    }

    async fn open_tunnel(
        &self,
        target: &str,
        port: u16,
    ) -> Result<Box<dyn TunnelStream>, TunnelError> {
        forward::open(&self.handle, target, port).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_the_shell_profile_is_removed() {
        for (printed, kept, found) in [
            ("Welcome!\nkubexm: output begins\nhere", "here", true),
            ("kubexm: output begins\n", "", true),
            (
                "This account is not available.\n",
                "This account is not available.\n",
                false,
            ),
        ] {
            let mut stdout = printed.as_bytes().to_vec();
            assert_eq!(strip_mark(&mut stdout), found);
            assert_eq!(String::from_utf8(stdout).unwrap(), kept);
        }
    }

    #[test]
    fn quoted_words_reach_the_command_unchanged() {
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
