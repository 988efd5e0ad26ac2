//! Findings: problems of hosts.

use std::fmt;

use kubexm_types::{FindingKind, HostName, Message};

/// A problem of a host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub host: HostName,
    /// Whether the problem prevents an install.
    pub fatal: bool,
    /// What is wrong.
    pub what: String,
    /// The action that solves the problem.
    pub hint: String,
    /// What the check is about.
    pub kind: FindingKind,
}

impl Finding {
    /// Returns a problem of a host.
    pub fn new(kind: FindingKind, host: &HostName, fatal: bool, what: String, hint: &str) -> Self {
        Self {
            kind,
            host: host.clone(),
            fatal,
            what,
            hint: hint.to_owned(),
        }
    }
}

impl From<&Finding> for Message {
    fn from(finding: &Finding) -> Self {
        Self::new(&finding.what)
            .hint(&finding.hint)
            .within(&finding.host)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Message::from(self).as_item().fmt(f)
    }
}
