//! Hosts over SSH: one connection a host, a channel a command.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use russh::Disconnect;
use russh::client::Handle;
use tokio::sync::Semaphore;

use super::authenticate;
use super::channel::{receive, send};
use super::dial::{self, Checker, Dialed, End, unreachable};
use super::known_hosts::HostKeys;
use super::{Command, DialError, Host, HostError, Input, Line, Output, forward};
use kubexm_types::HostName;
use kubexm_types::Secret;

/// For a login, and for a sudo: PAM may wait seconds after a wrong password.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// sshd allows ten sessions on a connection unless told otherwise.
const SESSIONS: usize = 8;
/// Stands between what the user's shell profile prints and what the command does.
const MARK: &str = "kubexm: output begins";
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
    end: End,
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

impl SshHost {
    /// Connects, checks the host's key, logs in and finds out how to become root.
    pub async fn connect(options: SshOptions) -> Result<Self, HostError> {
        let Dialed { mut handle, end } = dial::dial(&options).await?;
        let logging_in = authenticate::log_in(&mut handle, &options);
        let logged_in = tokio::time::timeout(LOGIN_TIMEOUT, logging_in).await;
        match logged_in {
            // Who is thrown out is not told by the method that was tried last.
            Ok(Err(HostError::Denied { reason, .. })) if handle.is_closed() => {
                let words = end.words("the host ended the connection");
                return Err(denied(&options, &format!("{words} ({reason})")));
            }
            Ok(result) => result?,
            Err(_) => return Err(too_slow(&options, "the login", LOGIN_TIMEOUT)),
        }
        let mut host = Self {
            become_root: BecomeRoot::AlreadyRoot,
            sessions: Semaphore::new(SESSIONS),
            handle,
            end,
            options,
        };
        let asking = host.find_way_to_root();
        host.become_root = match tokio::time::timeout(LOGIN_TIMEOUT, asking).await {
            Ok(result) => result?,
            Err(_) => return Err(too_slow(&host.options, "sudo", LOGIN_TIMEOUT)),
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

    async fn find_way_to_root(&self) -> Result<BecomeRoot, HostError> {
        if self.options.user == "root" {
            return Ok(BecomeRoot::AlreadyRoot);
        }
        let has_sudo = self
            .execute("command -v sudo", Input::None, None, "look for sudo")
            .await?;
        if !has_sudo.success() {
            let words = "the host has no sudo; install it, or log in as root";
            return Err(denied(&self.options, words));
        }
        // `-k` forgets what an earlier login left, so that the answer holds for every command;
        // `env` is what every command runs.
        let plain = self
            .execute("sudo -k; sudo -n -- env true", Input::None, None, "sudo")
            .await?;
        if plain.success() {
            return Ok(BecomeRoot::Sudo);
        }
        let Some(password) = &self.options.password else {
            let words = "sudo wants a password; give one in cluster.yaml, or allow NOPASSWD";
            return Err(denied(&self.options, words));
        };
        let input = Input::Bytes(format!("{}\n", password.0).into_bytes());
        let output = self
            .execute("sudo -k -S -p '' -- env true", input, None, "sudo")
            .await?;
        if output.success() {
            return Ok(BecomeRoot::SudoWithPassword(password.clone()));
        }
        let complaint = output.complaint();
        if complaint.contains("incorrect password") {
            let words = "sudo refuses the password of cluster.yaml";
            return Err(denied(&self.options, words));
        }
        Err(denied(&self.options, &format!("sudo refuses: {complaint}")))
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
            let words = self.end.words(&error.to_string());
            unreachable(&self.options, &format!("the connection broke: {words}"))
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
        let Some(mut output) = output else {
            let words = self.end.words("the host went away");
            let words = format!("the connection broke during '{description}': {words}");
            return Err(unreachable(&self.options, &words));
        };
        if after_mark(&mut output.stdout) {
            return Ok(output);
        }
        Err(HostError::Command {
            host: self.options.name.clone(),
            command: description.to_owned(),
            reason: format!(
                "{} gets no shell there: {}",
                self.options.user,
                output.complaint()
            ),
        })
    }
}

/// Drops what stands before the mark; `false` where there is none.
fn after_mark(stdout: &mut Vec<u8>) -> bool {
    let mark = format!("{MARK}\n");
    let found = stdout
        .windows(mark.len())
        .position(|window| window == mark.as_bytes());
    if let Some(place) = found {
        stdout.drain(..place + mark.len());
    }
    found.is_some()
}

fn denied(options: &SshOptions, reason: &str) -> HostError {
    HostError::Denied {
        host: options.name.clone(),
        user: options.user.clone(),
        reason: reason.to_owned(),
    }
}

fn too_slow(options: &SshOptions, what: &str, limit: Duration) -> HostError {
    let words = format!("{what} was not done after {} seconds", limit.as_secs());
    unreachable(options, &words)
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
        forward::through(&self.handle, target, port).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_profile_prints_is_not_the_commands() {
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
            assert_eq!(after_mark(&mut stdout), found);
            assert_eq!(String::from_utf8(stdout).unwrap(), kept);
        }
    }

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
