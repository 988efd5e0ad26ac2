//! What a check is, and what it finds.

use std::collections::BTreeSet;

use super::report::{Area, Certainty};
use super::seen::{KUBELET, Seen};
use crate::status::{Problem, ProblemKind, Subject};
use kubexm_config::cluster::{Etcd, RuntimeKind};
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
    pub(super) source: Source,
    /// What it reads, and where.
    pub(super) read: &'static str,
    pub(super) run: fn(&Seen) -> Outcome,
}

/// Where a check gets its answers from. With none of them, a check that finds nothing has read nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// This machine alone: its connections and its state directory.
    ThisMachine,
    Hosts,
    Nodes,
    ControlPlanes,
    /// The hosts of members of etcd; the control planes, which ask an etcd that kubexm does not run.
    Members,
}

impl Source {
    /// Returns which hosts are silent if none of the source answers; `None` if one answers.
    pub(super) fn silence(self, seen: &Seen) -> Option<&'static str> {
        let cluster = &seen.cluster;
        let is_external = matches!(cluster.etcd, Etcd::External { .. });
        let (is_of, silence): (&dyn Fn(&HostName) -> bool, _) = match self {
            Self::ThisMachine => return None,
            Self::Hosts => (&|_| true, "no host answers"),
            Self::Nodes => (&|host| cluster.is_node(host), "no node answers"),
            Self::Members if !is_external => (
                &|host| seen.member_hosts().contains(host),
                "no member of etcd answers",
            ),
            Self::ControlPlanes | Self::Members => (
                &|host| cluster.is_control_plane(host),
                "no control plane answers",
            ),
        };
        let mut hosts = cluster.hosts.iter().map(|host| &host.name);
        let answers = hosts.any(|host| is_of(host) && seen.has_answer(host));
        (!answers).then_some(silence)
    }
}

/// The result of a check.
pub(super) enum Outcome {
    Known(Vec<Found>),
    /// It could not be made, for this reason.
    Unknown(String),
}

impl Outcome {
    /// Returns the outcome of a check without an answer of an API server.
    pub(super) fn without_server() -> Self {
        Self::Unknown("no API server is ready".to_owned())
    }
}

/// What a check found on some hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) hosts: Vec<HostName>,
    pub(super) subject: Subject,
    pub(super) what: String,
    pub(super) evidence: Vec<String>,
    pub(super) cause: String,
    pub(super) certainty: Certainty,
    pub(super) fix: String,
    pub(super) commands: Vec<String>,
    /// Where conditions cannot come true while it is so. Only people change it; `None` if it may end by itself.
    pub(super) lasts: Option<Lasts>,
    /// Whether everything still works, as with a certificate that expires soon. A warning explains no other finding.
    pub(super) is_warning: bool,
    pub(super) kind: ProblemKind,
    /// What it is about, if its check has several topics of which logs can show more.
    pub(super) topic: Option<Topic>,
    /// The namespaces of the pods or services that it is about.
    pub(super) namespaces: BTreeSet<String>,
}

/// Where conditions cannot come true until people change what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lasts {
    /// Where the kubelets of these hosts must work.
    On(BTreeSet<HostName>),
    /// Where those of the hosts of the finding must work on which this unit does not run. One that runs goes on without what it needs to start.
    Without(String),
    /// Where a pod of CoreDNS must be ready.
    Dns,
}

/// Topics of checks that have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    /// The address of the bridge of pods.
    Bridge,
    /// The table of connections of the kernel.
    Connections,
    FileDescriptors,
    /// Watches of inotify.
    Watches,
    /// Addresses of pods that no longer exist.
    Leases,
}

impl Found {
    /// Returns a finding about the whole cluster. Its text may quote hosts.
    pub(super) fn new(what: impl AsRef<str>) -> Self {
        Self {
            hosts: Vec::new(),
            subject: Subject::None,
            what: Untrusted::one_line(what.as_ref(), 400).to_string(),
            evidence: Vec::new(),
            cause: String::new(),
            certainty: Certainty::Certain,
            fix: String::new(),
            commands: Vec::new(),
            lasts: None,
            is_warning: false,
            kind: ProblemKind::Other,
            topic: None,
            namespaces: BTreeSet::new(),
        }
    }

    /// Returns what `status` found.
    pub(super) fn of(problem: &Problem) -> Self {
        let mut found = Self::new(&problem.what).fix(&problem.hint);
        found.hosts.extend(problem.host.clone());
        found.subject = problem.subject.clone();
        // Once kubexm waits for what a unit does, no program unmasks it.
        let unit = problem.program();
        let mut runtimes = RuntimeKind::ALL.iter();
        // A node can become Ready without an etcd or a registry of its own.
        let is_of_kubelet =
            unit == KUBELET || runtimes.any(|kind| kind.properties().units().contains(&unit));
        let lasts = problem.kind == ProblemKind::Masked && is_of_kubelet;
        found
            .of_kind(problem.kind)
            .lasts(lasts.then(|| Lasts::Without(unit.to_owned())))
    }

    #[must_use]
    pub(super) fn of_kind(mut self, kind: ProblemKind) -> Self {
        self.kind = kind;
        self
    }

    /// Says where it keeps conditions from coming true until people change it.
    #[must_use]
    pub(super) fn lasts(mut self, lasts: Option<Lasts>) -> Self {
        self.lasts = lasts;
        self
    }

    #[must_use]
    pub(super) fn on_topic(mut self, topic: Option<Topic>) -> Self {
        self.topic = topic;
        self
    }

    /// Returns whether a program does not run because it was stopped, masked or removed. Only its own host explains that.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.kind, ProblemKind::Stopped | ProblemKind::Masked)
    }

    #[must_use]
    pub(super) fn about(mut self, subject: Subject) -> Self {
        self.subject = subject;
        self
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

    /// Marks it as a warning, if `is_warning` is true.
    #[must_use]
    pub(super) fn warning(mut self, is_warning: bool) -> Self {
        self.is_warning = is_warning;
        self
    }

    /// Returns whether the same is wrong on other hosts, so that one finding can name all of them.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        !self.hosts.is_empty()
            && !other.hosts.is_empty()
            && (&self.what, &self.cause, &self.fix) == (&other.what, &other.cause, &other.fix)
            && (self.certainty, self.is_warning, &self.lasts)
                == (other.certainty, other.is_warning, &other.lasts)
    }

    /// Adds the hosts of a finding that is like this one.
    pub(super) fn merge(&mut self, other: Self) {
        self.hosts.extend(other.hosts);
        self.namespaces.extend(other.namespaces);
        self.add_evidence(other.evidence);
        for command in other.commands {
            if !self.commands.contains(&command) {
                self.commands.push(command);
            }
        }
    }
}
