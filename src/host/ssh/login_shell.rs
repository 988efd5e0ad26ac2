//! The login shell of the user of a host, which reads every command line first.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A text that shells with other rules for quotes change.
pub(super) const QUOTED: &str = "a\\\\b'c\n!d$e";

/// How the login shell of the user reads a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginShell {
    /// As POSIX says.
    Posix,
    /// With other rules for quotes, as fish and csh do.
    Other,
}

impl LoginShell {
    /// Returns the line that the login shell gets, so that `sh` runs this one. Other shells get it in a form without characters that
    /// they could replace.
    pub(super) fn line(self, line: &str) -> String {
        match self {
            Self::Posix => line.to_owned(),
            Self::Other => {
                let encoded = STANDARD.encode(line);
                format!("exec sh -c 'eval \"$(echo {encoded} | base64 -d)\"'")
            }
        }
    }
}
