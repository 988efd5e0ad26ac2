//! Commands that end on the host too: at their time limit, and when kubexm cancels them.
//!
//! timeout(1) of GNU coreutils starts each command in a process group of its own. A closed SSH channel alone
//! ends no command: the command sees the end of its input, as after a complete input.

use std::time::{Duration, Instant};

use super::{Command, HostError, Limit, Output};
use kubexm_scripts::host as scripts;
use kubexm_types::{HostName, Message, Untrusted};

/// The time between TERM and KILL for a command at its limit, in seconds.
const KILL_AFTER: &str = "20";
/// The time after a limit until kubexm gives up. The host has then sent KILL, or does not answer.
pub(super) const MARGIN: Duration = Duration::from_secs(30);
/// Precedes the number of the process group in the output.
const GROUP: &[u8] = b"kubexm: process group ";
/// The number of bytes of output within which the mark and the number of the process group must occur.
const BEGINNING: usize = 64 * 1024;
/// The statuses of timeout(1) for a command that it ended by TERM and by KILL, and of a shell that a signal
/// ended; the last one is that of ssh(1) for it.
const ENDED: [i32; 5] = [124, 128, 128 + 9, 128 + 15, 255];

/// What the supervisor prints instead of the process group if the host has the lock of another run.
const LOCK_LOST: &str = "kubexm: lock lost";

/// Returns the words of a command line that runs a command under its limit.
pub(super) fn words(command: &Command) -> Vec<String> {
    let supervisor = [
        "timeout",
        "-k",
        KILL_AFTER,
        &command.limit.seconds().to_string(),
        "sh",
        "-euc",
        scripts::SUPERVISE.text,
        "kubexm",
        command.lock.as_deref().unwrap_or_default(),
    ];
    let supervisor = supervisor.map(str::to_owned).into_iter();
    supervisor.chain(command.argv.iter().cloned()).collect()
}

/// What a command has printed so far.
pub(super) struct Received {
    began: Instant,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Which signal ended the command.
    signal: Option<String>,
    /// The line that comes before the output; `None` once it was removed.
    mark: Option<String>,
    /// Whether the command prints the number of its process group.
    supervised: bool,
    group: Option<u32>,
}

/// Standard output is longer than [`Output::LIMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMuchOutput;

/// Why the output of a command is not a result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoResult {
    /// The command did not start. The text is what the host printed instead.
    NotStarted(String),
    /// The command did not start, because another run has taken the lock of the host.
    LockLost,
    /// The host ended the command at its limit.
    TimedOut,
}

impl Received {
    /// Starts with the output of a supervised command.
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            stdout: Vec::new(),
            stderr: Vec::new(),
            signal: None,
            mark: None,
            supervised: true,
            group: None,
        }
    }

    /// Starts with the output of a shell, whose profile may print. The output of a supervised command follows a
    /// line with `mark`.
    pub(super) fn after_mark(mark: &str) -> Self {
        Self {
            mark: Some(format!("{mark}\n")),
            ..Self::new()
        }
    }

    /// Starts with the output of a shell. The output of a command that is not supervised follows a line with
    /// `mark`.
    pub(super) fn unsupervised(mark: &str) -> Self {
        Self {
            supervised: false,
            ..Self::after_mark(mark)
        }
    }

    /// Returns whether the mark was printed.
    pub(super) fn has_mark(&self) -> bool {
        self.mark.is_none()
    }

    /// Returns the process group of the command, once it has started.
    pub(super) fn group(&self) -> Option<u32> {
        self.group
    }

    /// Adds standard output.
    ///
    /// # Errors
    /// There is more of it than kubexm keeps. A list that is cut off would be taken for a complete one.
    pub(super) fn add_stdout(&mut self, data: &[u8]) -> Result<(), TooMuchOutput> {
        self.stdout.extend_from_slice(data);
        if self.stdout.len() <= BEGINNING + data.len() {
            self.take_beginning();
        }
        if self.stdout.len() > Output::LIMIT {
            Err(TooMuchOutput)
        } else {
            Ok(())
        }
    }

    /// Removes the mark and the number of the process group from the beginning of the output.
    fn take_beginning(&mut self) {
        if let Some(mark) = &self.mark {
            let Some(at) = position(&self.stdout, mark.as_bytes()) else {
                return;
            };
            self.stdout.drain(..at + mark.len());
            self.mark = None;
        }
        if self.supervised && self.group.is_none() {
            self.group = take_group(&mut self.stdout);
        }
    }

    /// Adds standard error, and forgets its beginning if it becomes too long.
    pub(super) fn add_stderr(&mut self, data: &[u8]) {
        self.stderr.extend_from_slice(data);
        if self.stderr.len() > 2 * Output::LIMIT {
            self.stderr.drain(..self.stderr.len() - Output::LIMIT);
        }
    }

    /// Records which signal ended the command.
    pub(super) fn set_signal(&mut self, signal: String) {
        self.signal = Some(signal);
    }

    /// Returns the last lines of both streams.
    pub(super) fn last_lines(&self) -> String {
        let both = [&self.stdout, &self.stderr];
        let both = both.map(|stream| Untrusted::last(&String::from_utf8_lossy(stream)));
        let both = both.iter().map(Untrusted::as_str);
        let both: Vec<&str> = both.filter(|text| !text.is_empty()).collect();
        both.join("\n")
    }

    /// Returns the result of a command that ended with a status.
    ///
    /// # Errors
    /// The status is not that of the command.
    pub(super) fn output(&mut self, status: i32, limit: Limit) -> Result<Output, NoResult> {
        if self.group.is_none() {
            let printed = self.last_lines();
            let is_lost = printed.lines().any(|line| line == LOCK_LOST);
            return Err(if is_lost {
                NoResult::LockLost
            } else {
                NoResult::NotStarted(printed)
            });
        }
        if ENDED.contains(&status) && self.began.elapsed() >= limit.time() {
            return Err(NoResult::TimedOut);
        }
        Ok(self.take_output(status))
    }

    /// Returns the result of a command that is not supervised.
    pub(super) fn into_output(mut self, status: i32) -> Output {
        self.take_output(status)
    }

    fn take_output(&mut self, status: i32) -> Output {
        if let Some(signal) = self.signal.take() {
            self.stderr.extend_from_slice(signal.as_bytes());
        }
        let start = self.stderr.len().saturating_sub(Output::LIMIT);
        Output {
            status,
            stdout: std::mem::take(&mut self.stdout),
            stderr: self.stderr.split_off(start),
            log: None,
        }
    }
}

/// A command, for its errors.
pub(super) struct Description {
    pub(super) text: String,
    pub(super) limit: Limit,
    /// Whether the output can contain a secret.
    pub(super) is_secret: bool,
}

impl Description {
    pub(super) fn of(command: &Command) -> Self {
        Self {
            text: command.description(),
            limit: command.limit,
            is_secret: command.is_secret,
        }
    }
}

/// Returns the error of a command without a result.
pub(super) fn error(
    host: &HostName,
    command: Description,
    received: &Received,
    cause: NoResult,
) -> HostError {
    let Description {
        text: command,
        limit,
        is_secret,
    } = command;
    let host = host.clone();
    match cause {
        NoResult::NotStarted(printed) => HostError::Command {
            host,
            command,
            reason: format!("the command did not start: {printed}").into(),
        },
        NoResult::LockLost => HostError::Command {
            host,
            command,
            reason: Message::new(
                "another kubexm has worked on the host, because this process did not renew its lock in time",
            )
            .hint("run the same command again when the other one has ended"),
        },
        NoResult::TimedOut => HostError::TimedOut {
            host,
            command,
            limit,
            output: if is_secret {
                String::new()
            } else {
                received.last_lines()
            },
        },
    }
}

/// Returns the message of [`TooMuchOutput`].
pub(super) fn too_much_output() -> String {
    let mebibytes = Output::LIMIT / (1024 * 1024);
    format!("the command printed more than {mebibytes} MiB, which is not a result")
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// Removes the line with the number of the process group, and what `sudo` printed before it.
fn take_group(stdout: &mut Vec<u8>) -> Option<u32> {
    let at = position(stdout, GROUP)?;
    let number = at + GROUP.len();
    let length = stdout[number..].iter().position(|byte| *byte == b'\n')?;
    let text = std::str::from_utf8(&stdout[number..number + length]).ok()?;
    let group = text.parse().ok()?;
    stdout.drain(..=number + length);
    Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit::DEFAULT;

    #[test]
    fn output_of_the_shell_profile_is_removed() {
        let mark = "kubexm: output begins";
        for (printed, kept, found) in [
            ("Welcome!\nkubexm: output begins\nhere", "here", true),
            ("kubexm: output begins\n", "", true),
            (
                "This account is not available.\n",
                "This account is not available.\n",
                false,
            ),
        ] {
            let mut received = Received::unsupervised(mark);
            received.add_stdout(printed.as_bytes()).unwrap();
            assert_eq!(received.has_mark(), found);
            assert_eq!(received.into_output(0).text(), kept);
        }
    }

    #[test]
    fn line_with_the_process_group_is_not_output() {
        let mut received = Received::new();
        for part in [
            "kubexm: pro",
            "cess group 12",
            "34\nfirst",
            "\nkubexm: process group 5\n",
        ] {
            received.add_stdout(part.as_bytes()).unwrap();
        }
        assert_eq!(received.group(), Some(1234));
        let output = received.output(0, LIMIT).unwrap();
        assert_eq!(output.text(), "first\nkubexm: process group 5\n");
    }

    #[test]
    fn command_that_did_not_start_has_no_status() {
        let mut received = Received::new();
        received.add_stderr(b"env: 'timeout': No such file or directory\n");
        let expected = "env: 'timeout': No such file or directory";
        let result = received.output(127, LIMIT);
        assert_eq!(result, Err(NoResult::NotStarted(expected.to_owned())));
    }

    #[test]
    fn status_of_timeout_counts_after_the_limit_only() {
        let started = |limit| {
            let mut received = Received::new();
            received.add_stdout(b"kubexm: process group 1\n").unwrap();
            received.output(124, limit)
        };
        assert_eq!(started(LIMIT).unwrap().status, 124);
        let struck = Limit::new(Duration::ZERO, "tests");
        assert_eq!(started(struck), Err(NoResult::TimedOut));
    }

    #[test]
    fn standard_error_keeps_its_end_and_long_standard_output_is_an_error() {
        let mut received = Received::new();
        received.add_stdout(b"kubexm: process group 1\n").unwrap();
        let block = vec![b'x'; Output::LIMIT];
        for _ in 0..3 {
            received.add_stderr(&block);
        }
        received.add_stderr(b"\nthe cause");
        received.add_stdout(&block).unwrap();
        assert_eq!(received.add_stdout(b"x"), Err(TooMuchOutput));
        let output = received.output(1, LIMIT).unwrap();
        assert_eq!(output.stderr.len(), Output::LIMIT);
        assert!(output.stderr.ends_with(b"\nthe cause"));
    }
}
