//! The result of `doctor`.

use std::cmp::Reverse;
use std::fmt;

use serde::Serialize;

use kubexm_session::Hopeless;
use kubexm_types::HostName;

/// What is wrong with a cluster, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// The name of the cluster.
    pub cluster: String,
    /// The number of hosts in the cluster file.
    pub hosts: usize,
    /// Every check, in the order of dependency.
    pub checks: Vec<CheckResult>,
    /// What the checks found: causes before their consequences.
    pub findings: Vec<Finding>,
}

impl DoctorReport {
    /// Returns the findings that no other one explains.
    pub fn causes(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|found| found.follows.is_none())
    }

    /// Returns the cause for which a part of the cluster does not work: the one that explains most other findings, and the first
    /// of several by the order of dependency. A warning, and what is only possible, is none.
    pub fn main_cause(&self) -> Option<&Finding> {
        let explained = |found: &Finding| {
            let others = self.consequences();
            let others = others.filter(|other| other.follows == Some(found.check));
            let is_here = |host: &HostName| found.hosts.contains(host);
            let everywhere = found.hosts.is_empty();
            others
                .filter(|other| {
                    everywhere || other.hosts.is_empty() || other.hosts.iter().any(is_here)
                })
                .count()
        };
        let causes = self.causes().filter(|found| {
            found.certainty != Certainty::Possible
                && !found.is_warning
                && (explained(found) > 0 || found.area.is_of_programs())
        });
        causes.min_by_key(|found| Reverse(explained(found)))
    }

    /// Returns the [main cause](Self::main_cause) if it is certain and ends only by the hands of people. Conditions
    /// [that need it](Finding::keeps_waiting) cannot come true.
    pub fn lasting_cause(&self) -> Option<&Finding> {
        let is_lasting = |found: &&Finding| {
            let mut others = self.consequences();
            found.certainty == Certainty::Certain
                && found.keeps_waiting.is_some()
                // A part of the cluster does not work for this reason.
                && (found.check == IMAGES || others.any(|other| other.follows == Some(found.check)))
        };
        self.main_cause().filter(is_lasting)
    }

    /// Returns the findings that follow from another one.
    pub fn consequences(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|found| found.follows.is_some())
    }

    /// Returns whether something besides hosts that cannot be reached, and what follows from them, is wrong.
    pub fn has_problems(&self) -> bool {
        self.causes().any(|found| found.check != UNREACHABLE)
    }

    /// Returns whether a host cannot be reached.
    pub fn has_unreachable(&self) -> bool {
        let mut all = self.findings.iter();
        all.any(|found| found.check == UNREACHABLE)
    }
}

/// The check that finds hosts without a connection.
pub(super) const UNREACHABLE: &str = "unreachable";
/// The check that finds images that nodes cannot pull.
pub(super) const IMAGES: &str = "images";
/// The check that finds lost and damaged receipts.
pub(super) const RECEIPTS: &str = "receipts";
/// The check of the timers of this machine.
pub(super) const TIMERS: &str = "timers";
/// The check of commands that are not complete.
pub(super) const COMMANDS: &str = "commands";

/// What checks depend on, and what depends on them: an area depends on those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Area {
    Hosts,
    Time,
    Disk,
    Kernel,
    Certificates,
    Runtime,
    Registry,
    Etcd,
    ApiServer,
    LoadBalancer,
    Kubelets,
    Network,
    Dns,
    Workloads,
}

impl Area {
    /// Every area, in the order of dependency.
    pub const ALL: [Self; 14] = [
        Self::Hosts,
        Self::Time,
        Self::Disk,
        Self::Kernel,
        Self::Certificates,
        Self::Runtime,
        Self::Registry,
        Self::Etcd,
        Self::ApiServer,
        Self::LoadBalancer,
        Self::Kubelets,
        Self::Network,
        Self::Dns,
        Self::Workloads,
    ];

    /// Returns whether the area is about programs of the cluster, and not about what they need of a host.
    fn is_of_programs(self) -> bool {
        !matches!(
            self,
            Self::Hosts | Self::Time | Self::Disk | Self::Kernel | Self::Certificates
        )
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hosts => "hosts",
            Self::Time => "time",
            Self::Disk => "disk",
            Self::Kernel => "kernel",
            Self::Certificates => "certificates",
            Self::Runtime => "runtime",
            Self::Registry => "registry",
            Self::Etcd => "etcd",
            Self::ApiServer => "API server",
            Self::LoadBalancer => "load balancer",
            Self::Kubelets => "kubelets",
            Self::Network => "network",
            Self::Dns => "DNS",
            Self::Workloads => "workloads",
        })
    }
}

/// A check and its verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckResult {
    /// The identifier, as in `swap`.
    pub check: &'static str,
    pub area: Area,
    /// What it reads, and where.
    pub read: &'static str,
    pub verdict: Verdict,
    /// Why the verdict is unknown.
    pub reason: Option<String>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    Ok,
    /// It has a finding.
    Problem,
    /// It could not be made.
    Unknown,
}

/// How sure kubexm is of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Certainty {
    /// The evidence has no other explanation that kubexm knows.
    Certain,
    /// Other explanations are rare.
    Likely,
    /// One of several explanations.
    Possible,
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Possible => "possible",
        })
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The identifier of the check.
    pub check: &'static str,
    pub area: Area,
    /// The hosts; none for the whole cluster.
    pub hosts: Vec<HostName>,
    /// What is wrong.
    pub what: String,
    /// Lines of hosts and of the API, without characters that control a terminal.
    pub evidence: Vec<String>,
    /// Why it is wrong, and what follows.
    pub cause: String,
    pub certainty: Certainty,
    /// What to do.
    pub fix: String,
    /// Commands that do it, in this order. Each can be run as it is.
    pub commands: Vec<String>,
    /// The check whose finding explains this one; `None` if none does.
    pub follows: Option<&'static str>,
    /// Where conditions cannot come true until people change what was found; `None` if it may end by itself.
    #[serde(skip)]
    pub keeps_waiting: Option<Hopeless>,
    /// Whether everything still works, as with a certificate that expires soon.
    #[serde(skip)]
    pub is_warning: bool,
}

impl Finding {
    /// Returns whether a later look found the same.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.check, &self.keeps_waiting, &self.what)
            == (other.check, &other.keeps_waiting, &other.what)
    }
}
