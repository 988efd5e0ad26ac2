//! What a check is, and what it finds.

use super::report::{Area, Certainty};
use super::seen::Seen;
use crate::status::Problem;
use kubexm_types::HostName;
use kubexm_types::untrusted::Untrusted;

/// The most lines of evidence of a finding.
const LINES: usize = 6;
/// The most characters of such a line.
const COLUMNS: usize = 240;

/// A question about a cluster.
pub(super) struct Check {
    pub(super) id: &'static str,
    pub(super) area: Area,
    /// What it reads, and where.
    pub(super) read: &'static str,
    pub(super) run: fn(&Seen) -> Outcome,
}

/// What a check came to.
pub(super) enum Outcome {
    Known(Vec<Found>),
    /// It could not be made, for this reason.
    Unknown(String),
}

/// What a check found on some hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) hosts: Vec<HostName>,
    pub(super) what: String,
    pub(super) evidence: Vec<String>,
    pub(super) cause: String,
    pub(super) certainty: Certainty,
    pub(super) fix: String,
    pub(super) commands: Vec<String>,
}

impl Found {
    /// Returns a finding about the whole cluster. Its text may quote hosts.
    pub(super) fn new(what: impl AsRef<str>) -> Self {
        Self {
            hosts: Vec::new(),
            what: Untrusted::one_line(what.as_ref(), 400).to_string(),
            evidence: Vec::new(),
            cause: String::new(),
            certainty: Certainty::Certain,
            fix: String::new(),
            commands: Vec::new(),
        }
    }

    /// Returns what `status` found.
    pub(super) fn of(problem: &Problem) -> Self {
        let mut found = Self::new(&problem.what).fix(&problem.hint);
        found.hosts.extend(problem.host.clone());
        found
    }

    #[must_use]
    pub(super) fn on(mut self, host: &HostName) -> Self {
        self.hosts.push(host.clone());
        self
    }

    /// Adds lines that a host or the API provided.
    #[must_use]
    pub(super) fn evidence<S: AsRef<str>>(mut self, lines: impl IntoIterator<Item = S>) -> Self {
        self.add_evidence(lines);
        self
    }

    pub(super) fn add_evidence<S: AsRef<str>>(&mut self, lines: impl IntoIterator<Item = S>) {
        for line in lines {
            let line = Untrusted::one_line(line.as_ref(), COLUMNS).to_string();
            if self.evidence.len() < LINES && !line.is_empty() && !self.evidence.contains(&line) {
                self.evidence.push(line);
            }
        }
    }

    #[must_use]
    pub(super) fn cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = cause.into();
        self
    }

    #[must_use]
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    /// Adds a command of the fix.
    #[must_use]
    pub(super) fn run(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    #[must_use]
    pub(super) fn likely(mut self) -> Self {
        self.certainty = Certainty::Likely;
        self
    }

    #[must_use]
    pub(super) fn possible(mut self) -> Self {
        self.certainty = Certainty::Possible;
        self
    }

    /// Returns whether the same is wrong on other hosts, so that one finding can name all of them.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        !self.hosts.is_empty()
            && !other.hosts.is_empty()
            && (&self.what, &self.cause, &self.fix, self.certainty)
                == (&other.what, &other.cause, &other.fix, other.certainty)
    }

    /// Adds the hosts of a finding that is like this one.
    pub(super) fn merge(&mut self, other: Self) {
        self.hosts.extend(other.hosts);
        self.add_evidence(other.evidence);
        for command in other.commands {
            if !self.commands.contains(&command) {
                self.commands.push(command);
            }
        }
    }
}
