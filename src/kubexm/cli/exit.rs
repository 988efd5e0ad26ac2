//! Exit codes by kind of failure.

use std::fmt;

use kubexm_session::CommandError;
use kubexm_types::{ErrorKind, Message, untrusted};

/// Returns the exit code of a kind, and what it means.
pub fn code(kind: ErrorKind) -> (u8, &'static str) {
    match kind {
        ErrorKind::Interrupted => (1, "interrupted"),
        ErrorKind::Differences => (1, "`bundle diff --exit-code` found differences"),
        ErrorKind::Machine => (1, "this machine does not permit what the command needs"),
        ErrorKind::Configuration => (2, "usage or configuration, or an unusable file"),
        ErrorKind::Refused => (
            2,
            "the state of the hosts, or what has begun on them, does not permit the command",
        ),
        ErrorKind::Bundle => (3, "bundle (building, downloading or reading it)"),
        ErrorKind::Host => (
            4,
            "a host cannot be reached, refuses the login or was lost during the work",
        ),
        ErrorKind::Step => (
            5,
            "a step, a program or a file, or the command of `exec`, failed on a host; `certs timer run`: the control plane is \
             not healthy",
        ),
        ErrorKind::Changes => (
            6,
            "`plan --diff`, `app diff`, or a dry run of `install` or `status --fix` on an installed cluster, found changes",
        ),
        ErrorKind::Tests => (7, "`conformance`: a test failed"),
        ErrorKind::Certificates => (
            8,
            "`certs check`: a certificate has expired, expires soon, is missing or unreadable, or does not match its CA",
        ),
        ErrorKind::Attention => (
            9,
            "`status` or `doctor`: the cluster needs attention; `registry list`: registries differ; `timer status`: a timer \
             needs attention; `backup timer run`: the backup is not complete",
        ),
        ErrorKind::Defect => (10, "a defect of kubexm"),
    }
}

/// Returns the text about exit codes at the end of `--help`.
pub fn help() -> String {
    let mut text = "Exit codes: 0 success".to_owned();
    let mut last = 0;
    for (code, meaning) in ErrorKind::ALL.map(code) {
        if code == last {
            text += &format!(", or {meaning}");
        } else {
            text += &format!(", {code} {meaning}");
        }
        last = code;
    }
    text
}

/// The message and the kind of a command that did not succeed.
#[derive(Debug)]
pub struct Failure {
    kind: ErrorKind,
    message: Message,
    /// Whether the output of the command already describes the failure.
    is_reported: bool,
}

impl Failure {
    /// Returns the failure for wrong arguments.
    pub fn configuration(message: impl Into<Message>) -> Self {
        CommandError::configuration(message).into()
    }

    /// Returns the failure of a state that cannot occur.
    pub fn defect(cause: impl fmt::Display) -> Self {
        CommandError::defect(cause).into()
    }

    /// Returns the failure of this machine.
    pub fn machine(message: impl Into<Message>) -> Self {
        Self {
            kind: ErrorKind::Machine,
            message: message.into(),
            is_reported: false,
        }
    }

    /// Returns the result of a command whose output says what it found. It has no message.
    pub fn found(kind: ErrorKind) -> Self {
        Self {
            kind,
            message: Message::new(""),
            is_reported: true,
        }
    }

    /// Sets what the user can do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            message: self.message.hint(hint),
            ..self
        }
    }

    /// Returns the failure of a command whose JSON document describes it: no `Error` document follows.
    pub fn reported(self) -> Self {
        Self {
            is_reported: true,
            ..self
        }
    }

    /// Returns whether a JSON document already describes the failure.
    pub fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Returns what failed and what the user can do, as data from hosts, servers and bundles may be shown; `None` if the output
    /// says everything.
    pub fn message(&self) -> Option<Message> {
        (!self.message.text.is_empty()).then(|| printable(&self.message))
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

fn printable(message: &Message) -> Message {
    Message {
        text: untrusted::message(&message.text),
        hint: message.hint.as_deref().map(untrusted::message),
        items: message.items.iter().map(printable).collect(),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        Self {
            kind: error.kind(),
            message: Message::from(&error),
            is_reported: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts of users decide on these numbers.
    #[test]
    fn codes_are_stable() {
        let codes = ErrorKind::ALL.map(|kind| {
            let name = serde_json::to_value(kind).unwrap();
            format!("{} {}", code(kind).0, name.as_str().unwrap())
        });
        assert_eq!(
            codes,
            [
                "1 interrupted",
                "1 differences",
                "1 machine",
                "2 configuration",
                "2 refused",
                "3 bundle",
                "4 host",
                "5 step",
                "6 changes",
                "7 tests",
                "8 certificates",
                "9 attention",
                "10 defect",
            ]
        );
    }
}
