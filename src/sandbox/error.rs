//! Why a program did not run to its end.

use std::io;
use std::time::Duration;

/// Why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel or the container of this process does not permit a part of the isolation.
    #[error("cannot isolate the program: {0}")]
    Unavailable(String),
    /// The program cannot be started, or a directory cannot be prepared for it.
    #[error("cannot start the program: {0}")]
    Start(#[from] io::Error),
    /// The program and its children were killed.
    #[error("the program did not end within {} s and was killed", .0.as_secs())]
    TimedOut(Duration),
    /// The program and its children were killed.
    #[error("the program printed more than {0} bytes and was killed")]
    TooMuchOutput(u64),
}

impl SandboxError {
    /// Returns what the user can do, if kubexm knows it.
    pub fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::Unavailable(_)).then_some(
            "run kubexm as root, or permit user namespaces (`sysctl user.max_user_namespaces \
             kernel.apparmor_restrict_unprivileged_userns`); --no-sandbox runs downloaded programs with all of your rights",
        )
    }
}
