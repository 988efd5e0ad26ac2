//! Commands for a host. Arguments are never parsed by a shell, and secrets never appear in arguments.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use super::Limit;
use kubexm_scripts::Script;
use kubexm_types::{Untrusted, redacted};

/// The standard input of a command.
pub enum Input {
    /// `/dev/null`.
    None,
    /// Bytes in memory. They may be secret, so they are never logged.
    Bytes(Vec<u8>),
    /// A stream that a blocking thread reads while kubexm sends it. It is never completely in memory.
    Stream(Box<dyn Read + Send>),
}

/// A program with its arguments, or a POSIX shell script with its positional parameters.
///
/// Arguments are visible to every user of the host (`ps`): secrets go into [`Command::input`].
pub struct Command {
    pub(super) argv: Vec<String>,
    pub(super) input: Input,
    pub(super) limit: Limit,
    pub(super) continues: bool,
    pub(super) description: Option<String>,
    pub(super) is_secret: bool,
    /// The token of the lock that the host must have.
    pub(super) lock: Option<Arc<str>>,
}

impl Command {
    /// Returns a command that runs `program`, found by a PATH that contains the sbin folders.
    pub fn new(program: impl Into<String>) -> Self {
        Self::with_argv(vec![program.into()])
    }

    /// Returns a command that runs the text of a script under `sh -eu`. The script gets `arguments` as
    /// `$1`, `$2`…, so that no value becomes part of shell text.
    pub fn script<I, S>(script: impl Into<String>, arguments: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let shell = ["sh".into(), "-euc".into(), script.into(), "kubexm".into()];
        let argv = shell
            .into_iter()
            .chain(arguments.into_iter().map(Into::into))
            .collect();
        Self::with_argv(argv)
    }

    fn with_argv(argv: Vec<String>) -> Self {
        Self {
            argv,
            input: Input::None,
            limit: Limit::DEFAULT,
            continues: false,
            description: None,
            is_secret: false,
            lock: None,
        }
    }

    /// Returns a command that runs a script of the crate `kubexm-scripts` with its verb and `arguments`.
    pub fn from_script<I, S>(script: Script, arguments: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Self::script(script.text, script.arguments(arguments))
    }

    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.argv.push(argument.into());
        self
    }

    #[must_use]
    pub fn args<I, S>(mut self, arguments: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        self.argv.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Sets the time after which the command ends on the host and fails. The default is [`Limit::DEFAULT`].
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// Lets the command continue on the host, until its limit, when kubexm cancels it. The next run must wait
    /// for it.
    #[must_use]
    pub fn continues_when_cancelled(mut self) -> Self {
        self.continues = true;
        self
    }

    /// Sets the text that names the command in errors and logs. The default is the command line.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Marks the output as secret: it does not go to the log file of the host.
    #[must_use]
    pub fn secret_output(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Runs the command only while the lock of the host has this token. Another run may have changed the host otherwise.
    #[must_use]
    pub fn under_lock(mut self, token: Arc<str>) -> Self {
        self.lock = Some(token);
        self
    }

    /// Returns whether the output can contain a secret.
    pub fn has_secret_output(&self) -> bool {
        self.is_secret
    }

    /// Returns the program with its arguments, and the standard input, for a host that is simulated.
    pub fn into_parts(self) -> (Vec<String>, Input) {
        (self.argv, self.input)
    }

    /// Returns the text that names the command in errors and logs.
    pub fn description(&self) -> String {
        match &self.description {
            Some(text) => text.clone(),
            None if self.argv.first().is_some_and(|p| p == "sh") => "a script".to_owned(),
            None => self.argv.join(" "),
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("description", &self.description())
            .finish_non_exhaustive()
    }
}

/// The result of a command that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub status: i32,
    /// The whole standard output. A command that prints more than [`Output::LIMIT`] bytes fails.
    pub stdout: Vec<u8>,
    /// The last [`Output::LIMIT`] bytes of standard error.
    pub stderr: Vec<u8>,
    /// The log file on this machine that contains the output.
    pub log: Option<PathBuf>,
}

impl Output {
    /// The largest number of bytes of each stream, because a hostile host must not exhaust memory.
    pub const LIMIT: usize = 16 * 1024 * 1024;

    /// Returns whether the exit status is 0.
    pub fn success(&self) -> bool {
        self.status == 0
    }

    /// Returns standard output as text, for a parser. Invalid UTF-8 is replaced. [`Output::shown`] returns the
    /// text for people.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns the first lines of standard output for messages, without secrets.
    pub fn shown(&self) -> Untrusted {
        Untrusted::first(&redacted::without(&String::from_utf8_lossy(&self.stdout)))
    }

    /// Returns the last lines of standard error for error messages, without secrets. If it is empty, the lines come from
    /// standard output.
    pub fn complaint(&self) -> Untrusted {
        let stream = if self.stderr.is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        Untrusted::last(&redacted::without(&String::from_utf8_lossy(stream)))
    }
}
