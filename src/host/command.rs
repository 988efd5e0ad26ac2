//! Commands for a host: arguments stay arguments, secrets stay out of sight.

use std::fmt;
use std::io::Read;
use std::time::Duration;

use kubexm_scripts::Script;

/// What a command reads on its standard input.
pub enum Input {
    /// Nothing: `/dev/null`.
    None,
    /// Bytes in memory. May be secret: never logged.
    Bytes(Vec<u8>),
    /// A stream, read on a blocking thread while it is sent; never held whole in memory.
    Stream(Box<dyn Read + Send>),
}

/// A program with its arguments, or a POSIX shell script with its positional parameters.
///
/// Arguments are visible to every user of the host (`ps`): secrets go into [`Command::input`].
pub struct Command {
    pub(super) argv: Vec<String>,
    pub(super) input: Input,
    pub(super) timeout: Option<Duration>,
    pub(super) description: Option<String>,
}

impl Command {
    /// Runs `program` (found by PATH, with the usual sbin folders in it).
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            argv: vec![program.into()],
            input: Input::None,
            timeout: None,
            description: None,
        }
    }

    /// Runs the text of a script under `sh -eu`. The script sees `arguments` as `$1`, `$2`…, so that no
    /// value becomes part of shell text.
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
        Self {
            argv,
            input: Input::None,
            timeout: None,
            description: None,
        }
    }

    /// Runs a script of the crate `kubexm-scripts` with its verb and `arguments`.
    pub fn of<I, S>(script: Script, arguments: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Self::script(script.text, script.arguments(arguments))
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.argv.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I, S>(mut self, arguments: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        self.argv.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Feeds standard input.
    #[must_use]
    pub fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Ends the command after `timeout` with an error.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How errors and logs name the command, where the program's name says too little.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The name for errors and logs.
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

/// What a finished command left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status.
    pub status: i32,
    /// Standard output, at most [`Output::LIMIT`] bytes of it.
    pub stdout: Vec<u8>,
    /// Standard error, the last [`Output::LIMIT`] bytes of it.
    pub stderr: Vec<u8>,
}

impl Output {
    /// How many bytes of each stream are kept: a hostile host must not fill our memory.
    pub const LIMIT: usize = 16 * 1024 * 1024;

    /// Whether the exit status was 0.
    pub fn success(&self) -> bool {
        self.status == 0
    }

    /// Standard output as text, invalid UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The last lines of standard error (or of standard output where that is empty), for messages.
    pub fn complaint(&self) -> String {
        let stream = if self.stderr.is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        let text = String::from_utf8_lossy(stream);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}
