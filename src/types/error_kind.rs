//! Kinds of failures.

use serde::Serialize;

/// Why a command did not succeed. It decides the exit code of the process; its name is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The user stopped the command.
    Interrupted,
    /// A comparison found differences.
    Differences,
    /// The machine of kubexm does not permit what the command needs.
    Machine,
    /// Wrong options, a wrong file of the user, or an unusable file.
    Configuration,
    /// The state of the hosts, or what has begun on them, does not permit the command.
    Refused,
    /// A bundle cannot be built, downloaded or read.
    Bundle,
    /// A host cannot be reached, refuses the login, or was lost.
    Host,
    /// A step or a program failed on a host that answers.
    Step,
    /// An install would change hosts.
    Changes,
    /// A test of Kubernetes failed.
    Tests,
    /// Certificates need an action.
    Certificates,
    /// A cluster, a timer or a backup needs attention.
    Attention,
    /// kubexm did what it never should.
    Defect,
}

impl ErrorKind {
    /// Every kind, in the order of the exit codes.
    pub const ALL: [Self; 13] = [
        Self::Interrupted,
        Self::Differences,
        Self::Machine,
        Self::Configuration,
        Self::Refused,
        Self::Bundle,
        Self::Host,
        Self::Step,
        Self::Changes,
        Self::Tests,
        Self::Certificates,
        Self::Attention,
        Self::Defect,
    ];
}
