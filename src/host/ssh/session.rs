//! The connection of a host: one channel per command.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::login_shell::{LoginShell, QUOTED};
use super::options::SshOptions;
use super::root::BecomeRoot;
use super::wire::Wire;
use crate::authenticate::{LOGIN_TIMEOUT, too_slow};
use crate::channel::{Closed, NoChannel, Progress, Reader, accept, send};
use crate::supervise::{self, Received, TooMuchOutput};
use crate::{HostError, Input, Output};
use kubexm_scripts::host as scripts;
use kubexm_types::{HostName, Message};

/// The number of parallel channels. sshd allows ten per connection by default (MaxSessions).
const SESSIONS: usize = 8;
/// Separates what the user's shell profile prints from the output of the command.
pub(super) const MARK: &str = "kubexm: output begins";
/// Sets the same environment for every command, independent of the user's shell profile and of `/etc/environment`. With the
/// proxies of the site in it, kubeadm would ask the API server through them, and copy them to static pods.
const ENVIRONMENT: &str =
    "env -i LC_ALL=C HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The time within which the host must receive the request to end a cancelled command.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// The connection of a host. Requests that end cancelled commands share it.
pub(super) struct Session {
    pub(super) options: SshOptions,
    wire: Wire,
    become_root: BecomeRoot,
    shell: LoginShell,
    /// The channels that may still be opened. There are fewer in total after sshd has refused some.
    sessions: Semaphore,
    most_sessions: AtomicUsize,
    /// The commands that run. A cancelled command is in it until the host knows that it must end.
    commands: TaskTracker,
}

impl Session {
    /// Connects, verifies the host's key, logs in, and determines how commands get root's permissions.
    pub(super) async fn connect(options: SshOptions) -> Result<Self, HostError> {
        let connected = Wire::connect(&options).await;
        let (wire, server) = connected.map_err(|error| options.error(error))?;
        let options = SshOptions { server, ..options };
        let mut session = Session {
            become_root: BecomeRoot::AlreadyRoot,
            shell: LoginShell::Posix,
            sessions: Semaphore::new(SESSIONS),
            most_sessions: AtomicUsize::new(SESSIONS),
            commands: TaskTracker::new(),
            wire,
            options,
        };
        let late = |what| Err(session.options.unreachable(too_slow(what)));
        session.shell = match tokio::time::timeout(LOGIN_TIMEOUT, session.probe_shell()).await {
            Ok(result) => result?,
            Err(_) => return late("the login shell"),
        };
        session.become_root = match tokio::time::timeout(LOGIN_TIMEOUT, session.probe_root()).await
        {
            Ok(result) => result?,
            Err(_) => return late("sudo"),
        };
        Ok(session)
    }

    pub(super) fn name(&self) -> &HostName {
        &self.options.name
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(super) fn commands(&self) -> &TaskTracker {
        &self.commands
    }

    /// Determines how the login shell reads quotes. A shell that cannot read the question has other rules, too.
    async fn probe_shell(&self) -> Result<LoginShell, HostError> {
        let line = format!("printf %s {}", quote(QUOTED));
        let asked = self
            .execute(&line, Input::None, None, "ask the login shell")
            .await;
        match asked {
            Ok(output) if output.text() == QUOTED => Ok(LoginShell::Posix),
            Ok(_) | Err(HostError::Command { .. }) => Ok(LoginShell::Other),
            Err(error) => Err(error),
        }
    }

    /// Runs one command line as the logged-in user, without a time limit, and returns its output.
    pub(super) async fn execute(
        &self,
        line: &str,
        input: Input,
        prefix: Option<Vec<u8>>,
        description: &str,
    ) -> Result<Output, HostError> {
        let mut received = Received::unsupervised(MARK);
        let call = Call {
            line: line.to_owned(),
            input,
            prefix,
            description: description.to_owned(),
        };
        let never = CancellationToken::new();
        let status = self.exchange(call, &mut received, &never).await?;
        Ok(received.into_output(status))
    }

    /// Runs one command line as the logged-in user. Returns its exit status; what it prints is in `received`.
    /// After `cancel` the command ends on the host, and its status means nothing.
    pub(super) async fn exchange(
        &self,
        call: Call,
        received: &mut Received,
        cancel: &CancellationToken,
    ) -> Result<i32, HostError> {
        let description = call.description.as_str();
        let broken = |reason: Message| {
            let reason = reason.within("the connection broke");
            self.options.unreachable(reason)
        };
        let line = self.shell.line(&format!("echo '{MARK}'; {}", call.line));
        let mut refused_since = None;
        let (_session, (mut read, mut write)) = loop {
            let session = tokio::select! {
                session = self.sessions.acquire() => {
                    session.map_err(|_| broken(Message::new("kubexm closed it")))?
                }
                () = cancel.cancelled() => return Ok(CANCELLED),
            };
            let given_up = async {
                cancel.cancelled().await;
                tokio::time::sleep(END_TIMEOUT).await;
            };
            let started = tokio::select! {
                started = self.wire.start(&line) => started,
                () = given_up => return Ok(CANCELLED),
            };
            match started {
                Ok(channel) => break (session, channel),
                Err(NoChannel::Refused) => {
                    let since = refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > REFUSED_TIMEOUT {
                        return Err(self.options.unreachable(no_session()));
                    }
                    self.use_fewer(session);
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
                Err(NoChannel::Broken(reason)) => return Err(broken(reason)),
            }
        };
        let (prefix, input) = (call.prefix, call.input);
        let sending = async {
            if let Some(first) = prefix {
                write.data(first.into()).await.map_err(|Closed| None)?;
            }
            send(&mut write, input).await?;
            write.eof().await.map_err(|Closed| None)
        };
        tokio::pin!(sending);
        let mut is_sending = true;
        let mut unreadable = None;
        let mut status = None;
        // Set when the command must end before its channel closes: the end of the channel looks like the end of its
        // input, and the command must not use half of it.
        let mut give_up = None;
        loop {
            tokio::select! {
                piece = read.next() => match piece.map(|piece| accept(piece, received)) {
                    None => break,
                    Some(Ok(Progress::Running)) => {}
                    Some(Ok(Progress::Ended(number))) => status = Some(number),
                    Some(Err(TooMuchOutput)) => {
                        if let Some(group) = received.group() {
                            self.end_while_reading(group, &mut read).await;
                        }
                        return Err(self.command_error(description, supervise::too_much_output()));
                    }
                },
                result = &mut sending, if is_sending && give_up.is_none() => {
                    is_sending = false;
                    unreadable = result.err().flatten();
                }
                () = cancel.cancelled(), if give_up.is_none() => {
                    give_up = Some(Instant::now() + END_TIMEOUT);
                }
                () = until(give_up) => break,
            }
            if unreadable.is_some() && give_up.is_none() {
                give_up = Some(Instant::now() + END_TIMEOUT);
            }
            // The number of the group is the first that the command prints.
            if let (Some(_), Some(group)) = (give_up, received.group()) {
                self.end_while_reading(group, &mut read).await;
                break;
            }
        }
        if let Some(source) = unreadable {
            let (host, command) = (self.options.name.clone(), description.to_owned());
            return Err(HostError::Input {
                host,
                command,
                source,
            });
        }
        if give_up.is_some() {
            return Ok(CANCELLED);
        }
        let Some(status) = status else {
            let reason = self.wire.disconnected().await;
            let context = format!("the connection broke during '{description}'");
            return Err(self.options.unreachable(reason.within(&context)));
        };
        if received.has_mark() {
            Ok(status)
        } else {
            Err(self.no_shell(description, received))
        }
    }

    /// Opens fewer channels at the same time from now on, at least one: sshd permits no more.
    fn use_fewer(&self, session: SemaphorePermit<'_>) {
        let fewer = |most: usize| (most > 1).then(|| most - 1);
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.most_sessions.fetch_update(set, read, fewer).is_ok() {
            session.forget();
        }
    }

    /// Ends a process group on the host. Discards what it still prints: a channel that is not read blocks all
    /// channels of its connection.
    async fn end_while_reading(&self, group: u32, read: &mut Reader) {
        tokio::select! {
            () = self.end(group) => {}
            () = read.discard() => {}
        }
    }

    /// Ends a process group on the host.
    async fn end(&self, group: u32) {
        let script = scripts::END_GROUP.text.to_owned();
        let words = ["sh", "-euc", &script, "kubexm", &group.to_string()].map(str::to_owned);
        let (line, prefix) = self.as_root(&words);
        let ending = async {
            // Not limited by `sessions`: all of them may be in use by commands that must end.
            let line = self.shell.line(&format!("echo '{MARK}'; {line}"));
            let (mut read, mut write) = self.wire.start(&line).await?;
            if let Some(password) = prefix {
                let _ = write.data(password.into()).await;
            }
            let _ = write.eof().await;
            read.discard().await;
            Ok::<_, NoChannel>(())
        };
        // Without an answer the time limit on the host ends the command.
        let _ = tokio::time::timeout(END_TIMEOUT, ending).await;
    }

    /// Returns the command line that runs words as root, and the first line of its input.
    pub(super) fn as_root(&self, words: &[String]) -> (String, Option<Vec<u8>>) {
        let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
        let line = format!("{ENVIRONMENT} {}", words.join(" "));
        match &self.become_root {
            BecomeRoot::AlreadyRoot => (line, None),
            BecomeRoot::Sudo => (format!("sudo -n -- {line}"), None),
            BecomeRoot::SudoWithPassword(password) => {
                let first = format!("{}\n", password.0).into_bytes();
                (format!("sudo -k -S -p '' -- {line}"), Some(first))
            }
        }
    }

    pub(super) fn command_error(&self, description: &str, reason: impl Into<Message>) -> HostError {
        HostError::Command {
            host: self.options.name.clone(),
            command: description.to_owned(),
            reason: reason.into(),
        }
    }

    fn no_shell(&self, description: &str, received: &Received) -> HostError {
        let (user, printed) = (&self.options.server.user, received.last_lines());
        let reason = Message::new(format!("the user {user} does not get a shell on the host: {printed}"))
            .hint(format!("give the user a login shell with `usermod -s /bin/sh {user}`, or correct user in the cluster file"));
        self.command_error(description, reason)
    }
}

/// How long kubexm waits for a channel that sshd refuses: it frees one some time after its command has ended.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(60);
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

fn no_session() -> Message {
    Message::new("its SSH server accepts the login, and refuses a session").hint(
        "set MaxSessions in sshd_config to 1 or more, or look for the reason in the log of sshd",
    )
}

/// The status of a command that kubexm cancelled.
const CANCELLED: i32 = 128;

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// One command line with its input.
pub(super) struct Call {
    pub(super) line: String,
    pub(super) input: Input,
    /// Bytes before the input, such as the password of sudo.
    pub(super) prefix: Option<Vec<u8>>,
    pub(super) description: String,
}

/// Quotes a word for a POSIX shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
