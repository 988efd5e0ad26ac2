//! Exit codes by kind of failure.

use std::fmt;

use kubexm_session::{CommandError, ErrorKind};

/// Every exit code and its meaning.
pub const CODES: [(u8, &str); 10] = [
    (0, "success"),
    (1, "interrupted or unexpected"),
    (2, "usage or configuration, or kubexm refused the command"),
    (3, "bundle (building, downloading or reading it)"),
    (
        4,
        "a host cannot be reached, refuses the login or was lost during the work",
    ),
    (
        5,
        "a step, or the command of `exec`, failed on a host; `certs timer run`: the control plane is not healthy",
    ),
    (
        6,
        "`plan --diff`, or a dry run of `install` or `status --fix` on an installed cluster, found changes",
    ),
    (7, "`conformance`: a test failed"),
    (
        8,
        "`certs check`: a certificate has expired, expires soon, is missing or unreadable, or does not match its CA",
    ),
    (
        9,
        "`status` or `doctor`: the cluster needs attention; `registry list`: registries differ; `timer status`: a timer needs attention; \
         `backup timer run`: the backup is not complete",
    ),
];

/// Returns the text about exit codes at the end of `--help`.
pub fn help() -> String {
    let codes = CODES.map(|(code, meaning)| format!("{code} {meaning}"));
    format!("Exit codes: {}", codes.join(", "))
}

/// The message and the exit code of a command that failed.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
    /// Whether a JSON document on standard output already describes the failure.
    is_reported: bool,
}

impl Failure {
    /// Returns the failure for wrong arguments.
    pub fn configuration(message: impl fmt::Display) -> Self {
        Self {
            code: 2,
            message: message.to_string(),
            is_reported: false,
        }
    }

    /// Returns the failure for an error that no argument causes.
    pub fn unexpected(message: impl fmt::Display) -> Self {
        Self {
            code: 1,
            message: message.to_string(),
            is_reported: false,
        }
    }

    /// Returns the result of a command that found differences: exit code 1 without a message.
    pub fn differences() -> Self {
        Self {
            code: 1,
            message: String::new(),
            is_reported: true,
        }
    }

    /// Returns the result of a comparison that found what an install would change: exit code 6 without a message.
    pub fn changes() -> Self {
        Self {
            code: 6,
            message: String::new(),
            is_reported: true,
        }
    }

    /// Returns the result of tests of which some failed: exit code 7 without a message.
    pub fn tests() -> Self {
        Self {
            code: 7,
            message: String::new(),
            is_reported: true,
        }
    }

    /// Returns the result of a check that found certificates which need an action: exit code 8 without a message.
    pub fn certificates() -> Self {
        Self {
            code: 8,
            message: String::new(),
            is_reported: true,
        }
    }

    /// Returns the result of a look at a cluster that needs attention: exit code 9 without a message.
    pub fn attention() -> Self {
        Self {
            code: 9,
            message: String::new(),
            is_reported: true,
        }
    }

    /// Returns the result of a command that listed unreachable hosts: exit code 4 without a message.
    pub fn unreachable() -> Self {
        Self {
            code: 4,
            message: String::new(),
            is_reported: true,
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

    /// Returns the exit code of the process.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        let code = match error.kind() {
            ErrorKind::Interrupted => 1,
            ErrorKind::Configuration => 2,
            ErrorKind::Bundle => 3,
            ErrorKind::Host => 4,
            ErrorKind::Step => 5,
        };
        Self {
            code,
            message: error.to_string(),
            is_reported: false,
        }
    }
}
