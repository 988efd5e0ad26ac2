//! What a check of a host is, and what it finds.

use kubexm_config::Cluster;
use kubexm_host::{Answers, Facts};
use kubexm_types::{FindingKind, HostName};

/// When a check can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Only on a host that has no part of a cluster yet.
    BeforeInstall,
    /// Also on a host of a cluster that runs.
    Always,
}

/// A check of a host.
pub struct HostCheck {
    pub kind: FindingKind,
    pub when: When,
    /// What it reads.
    pub read: &'static str,
    pub(super) find: fn(&Asked<'_>) -> Vec<Problem>,
}

/// What is known of a host.
pub struct Asked<'a> {
    pub cluster: &'a Cluster,
    pub host: &'a HostName,
    pub facts: &'a Facts,
    /// What [`ask`](super::ask) returned.
    pub answers: &'a Answers,
}

/// What a check found on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whether the cluster does not work with it, or not after the next boot.
    pub breaks: bool,
    /// Whether it only has an effect after the next boot, or when something changes.
    pub is_later: bool,
    /// What is wrong. It may quote the host.
    pub what: String,
    /// Lines that the host provided.
    pub evidence: Vec<String>,
    /// Which effect it has.
    pub cause: String,
    /// What the user can do.
    pub fix: String,
    /// Commands on the host that do it.
    pub commands: Vec<String>,
}

impl Problem {
    /// Returns what is wrong, and which effect it has.
    pub fn text(&self) -> String {
        format!("{}: {}", self.what, self.cause)
    }

    /// Returns what the user can do, with the commands.
    pub fn hint(&self) -> String {
        match &self.commands[..] {
            [] => self.fix.clone(),
            commands => format!("{}: {}", self.fix, commands.join(" && ")),
        }
    }
}

impl Asked<'_> {
    /// Returns whether the host has a part of a cluster already. Each of its programs has a line in the receipt.
    pub(super) fn is_used(&self) -> bool {
        let facts = self.facts;
        facts.is_node() || facts.receipt || facts.has_registry() || facts.etcd_formed
    }
}

impl HostCheck {
    /// Returns what is wrong on a host.
    pub fn find(&self, asked: &Asked<'_>) -> Vec<Problem> {
        if self.when == When::BeforeInstall && asked.is_used() {
            Vec::new()
        } else {
            (self.find)(asked)
        }
    }
}
