//! The result of `status`.

use std::fmt;

use serde::Serialize;

use super::applications::ApplicationState;
use kubexm_lifecycle::plan::HostDiff;
use kubexm_safekeeping::certs::Standing;
use kubexm_safekeeping::timer::TimerState;
use kubexm_session::CommandError;
use kubexm_session::rollback::Newest;
use kubexm_types::{HostName, Message, Version};

/// The state of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The name of the cluster.
    pub cluster: String,
    /// Its ID; `None` if neither the state directory nor a host has a record of it.
    pub id: Option<String>,
    /// The newest signed bundle that it was installed from; `None` if none was signed.
    pub bundle: Option<Newest>,
    /// How far a rotation of authorities is; `None` if none has begun.
    pub rotation: Option<String>,
    /// The version of Kubernetes in the cluster file.
    pub kubernetes: Version,
    pub endpoint: EndpointState,
    pub etcd: EtcdState,
    /// The registries that kubexm runs.
    pub registries: Vec<RegistryState>,
    /// The hosts, in the order of the cluster file.
    pub hosts: Vec<HostState>,
    /// The differences between the hosts and the plan of an install; `None` without a bundle.
    pub drift: Option<Vec<HostDiff>>,
    /// The timers of this machine.
    pub timers: Vec<TimerState>,
    /// The applications; `None` if no API server answers.
    pub applications: Option<Vec<ApplicationState>>,
    /// What needs attention, the likely causes first.
    pub problems: Vec<Problem>,
}

impl StatusReport {
    /// Returns whether something besides hosts that cannot be reached needs attention.
    pub fn has_problems(&self) -> bool {
        let mut all = self.problems.iter();
        all.any(|problem| problem.about != About::Unreachable)
    }

    /// Returns whether a host cannot be reached.
    pub fn has_unreachable(&self) -> bool {
        let mut all = self.problems.iter();
        all.any(|problem| problem.about == About::Unreachable)
    }
}

/// The address of the API servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointState {
    /// `host:port`.
    pub address: String,
    /// The nodes to which it answers.
    pub answers: Vec<HostName>,
    /// The nodes to which it does not answer.
    pub silent: Vec<HostName>,
}

/// The etcd of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdState {
    /// What runs it, by `spec.etcd.type`: `kubeadm`, `systemd` or `external`.
    pub kind: &'static str,
    /// The number of members by the cluster file; of endpoints for an external etcd.
    pub expected: usize,
    /// The members that answer. kubexm knows none of an external etcd.
    pub members: Vec<MemberState>,
}

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberState {
    pub host: HostName,
    pub version: Option<Version>,
    pub is_leader: bool,
    pub is_learner: bool,
    /// Whether it has a leader and reports no problem.
    pub is_healthy: bool,
    /// Size of its database in bytes; `None` if it did not report it, as with the other sizes.
    pub size: Option<u64>,
    /// The part of the database that is in use, in bytes.
    pub size_in_use: Option<u64>,
    /// The largest size of the database, in bytes.
    pub quota: Option<u64>,
    /// Alarms, as in `NOSPACE`.
    pub alarms: Vec<String>,
}

/// A registry that kubexm runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryState {
    /// `host:port`.
    pub address: String,
    /// The nodes to which it answers.
    pub answers: Vec<HostName>,
    /// The nodes to which it does not answer.
    pub silent: Vec<HostName>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostState {
    pub host: HostName,
    pub roles: Vec<&'static str>,
    /// Why kubexm does not know the state of the host, or of its programs; `None` if it does.
    pub unknown: Option<String>,
    /// The version of the kubelet's program.
    pub kubelet: Option<Version>,
    /// The version of the API server that answers on the host.
    pub api_server: Option<Version>,
    /// The node by the API; `None` if no API server answers, or if the host is not a node.
    pub node: Option<NodeState>,
    /// Units and programs that are not healthy.
    pub unhealthy: Vec<String>,
    /// File systems that the cluster writes.
    pub disks: Vec<DiskState>,
    /// The certificate that expires first.
    pub certificate: Option<CertificateState>,
    /// Milliseconds by which the clock is ahead of the clock of this machine, beyond the uncertainty of the round trip.
    pub clock_ahead: Option<i64>,
}

impl HostState {
    /// Returns the state of a host of which nothing else is known yet.
    pub(super) fn new(host: &HostName, roles: Vec<&'static str>) -> Self {
        Self {
            host: host.clone(),
            roles,
            unknown: None,
            kubelet: None,
            api_server: None,
            node: None,
            unhealthy: Vec::new(),
            disks: Vec::new(),
            certificate: None,
            clock_ahead: None,
        }
    }
}

/// A node by its object in the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    pub standing: NodeStanding,
    pub is_cordoned: bool,
    /// Conditions other than `Ready` that report a problem, as in `DiskPressure`.
    pub pressure: Vec<String>,
    /// The version of the kubelet that runs.
    pub kubelet: Option<Version>,
    /// The container runtime with its version.
    pub runtime: Option<String>,
    pub kernel: Option<String>,
    pub os: Option<String>,
}

impl NodeState {
    /// Returns the state of a node that the API does not have.
    pub(super) fn missing() -> Self {
        Self {
            standing: NodeStanding::Missing,
            is_cordoned: false,
            pressure: Vec::new(),
            kubelet: None,
            runtime: None,
            kernel: None,
            os: None,
        }
    }
}

/// Whether a node can run pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeStanding {
    Ready,
    NotReady,
    /// The kubelet has not reported for some time.
    Unknown,
    /// The API has no such node.
    Missing,
}

impl fmt::Display for NodeStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Unknown => "Unknown",
            Self::Missing => "missing",
        })
    }
}

/// A file system with directories of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskState {
    /// The mount point.
    pub mount: String,
    /// The directories of the cluster on it.
    pub directories: Vec<String>,
    /// Free space in bytes.
    pub free: u64,
    /// Size in bytes.
    pub size: u64,
    /// `None` if the file system has no limit of inodes, or did not report it.
    pub inodes: Option<InodeState>,
}

/// The inodes of a file system: each file and each directory needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InodeState {
    /// The number of free inodes.
    pub free: u64,
    /// The number of all inodes.
    pub total: u64,
}

impl InodeState {
    /// The part of free inodes in percent below which there is a problem: the kubelet's default of `nodefs.inodesFree` and
    /// `imagefs.inodesFree` (<https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>).
    const LIMIT_PERCENT: u64 = 5;

    /// Returns the part of free inodes in percent, rounded down.
    pub fn percent(&self) -> u64 {
        self.free.saturating_mul(100) / self.total.max(1)
    }

    /// Returns whether few inodes are free.
    pub fn are_few(&self) -> bool {
        self.percent() < Self::LIMIT_PERCENT
    }
}

impl DiskState {
    /// Returns the free space in percent, rounded down.
    pub fn percent(&self) -> u64 {
        self.free.saturating_mul(100) / self.size.max(1)
    }
}

/// The certificate of a host that expires first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateState {
    /// The file.
    pub path: String,
    /// The end of its validity.
    pub expires: String,
    /// Whole days until then; negative if it has expired.
    pub days_left: i64,
}

/// What a problem is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum About {
    /// A host that cannot be reached.
    Unreachable,
    /// A host whose state cannot be read, or that has no cluster.
    Host,
    /// What preflight looks for, too: a setting or a file of the host with which the cluster does not work, now or after the next
    /// boot.
    HostCheck,
    /// The cluster that a host belongs to.
    Identity,
    Clock,
    Disk,
    Certificate,
    Unit,
    Program,
    Etcd,
    ApiServer,
    Endpoint,
    Registry,
    Node,
    Version,
    /// The difference between a host and the plan of an install.
    Drift,
    /// A timer of this machine.
    Timer,
    /// A command that is not complete.
    Command,
    /// An application of the cluster file, or a release of kubexm.
    Application,
}

/// What a problem is, where [`About`] does not say it. Code decides on it, and its name is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ProblemKind {
    /// What `about` says, and no more.
    Other,
    /// A unit or static pod was stopped or removed. A program that ends by itself has failed, or starts again.
    Stopped,
    /// A unit is masked.
    Masked,
    /// A unit ends again and again, and systemd waits before it starts it.
    Restarting,
    /// A program refuses the credentials of kubexm: it runs, and they have expired or are of another cluster.
    CredentialsRefused,
    /// The certificate of a server is not accepted.
    CertificateRefused,
    /// A file system has few inodes.
    Inodes,
    /// A file system is mounted read-only.
    ReadOnly,
    /// etcd has an alarm other than `NOSPACE`.
    Alarm,
    /// etcd has the alarm `NOSPACE`: its database is full.
    DatabaseFull,
    /// The database of a member of etcd that works is about to be full.
    DatabaseNearQuota,
    NoLeader,
    /// The members of etcd are not those of the cluster file, or one does not vote.
    Members,
    /// The members of etcd are not those of the cluster file, and no host has run one of them yet.
    MemberNeverStarted,
    /// A node is cordoned.
    Cordoned,
    /// A node reports `DiskPressure`.
    DiskPressure,
    /// The cluster does not have an application of the cluster file.
    ApplicationMissing,
    /// The newest revision of a release is not deployed.
    ReleaseFailed,
    /// Helm works on a release, or was killed meanwhile.
    ReleasePending,
    /// The cluster file does not have the application of a release.
    ReleaseFormer,
    /// Helm created a revision of a release since kubexm did.
    ReleaseChanged,
    /// A pod in the namespace of an application is not ready.
    PodNotReady,
}

/// What a problem is about, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    None,
    /// A unit with its suffix, or the program of a static pod.
    Program(String),
    /// The mount point of a file system.
    Mount(String),
    Certificates {
        standing: Standing,
        /// All of them.
        paths: Vec<String>,
        /// Whether one is a CA.
        has_ca: bool,
    },
    Release {
        namespace: String,
        name: String,
    },
}

/// Something that needs attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub about: About,
    pub kind: ProblemKind,
    #[serde(skip)]
    pub subject: Subject,
    /// The host; `None` for the whole cluster.
    pub host: Option<HostName>,
    /// What is wrong.
    pub what: String,
    /// The action that solves the problem.
    pub hint: String,
}

impl Problem {
    /// Returns a problem of the whole cluster.
    pub fn new(about: About, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            about,
            kind: ProblemKind::Other,
            subject: Subject::None,
            host: None,
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// Returns an error as a problem of the whole cluster.
    pub(super) fn of_error(about: About, error: &CommandError) -> Self {
        let message = Message::from(error);
        Self::new(about, message.text, message.hint.unwrap_or_default())
    }

    /// Returns the problem as one of this kind.
    #[must_use]
    pub fn of_kind(self, kind: ProblemKind) -> Self {
        Self { kind, ..self }
    }

    /// Returns the problem as one of this subject.
    #[must_use]
    pub fn of(self, subject: Subject) -> Self {
        Self { subject, ..self }
    }

    /// Returns the unit with its suffix, or the program; empty if the problem is about none.
    pub(crate) fn program(&self) -> &str {
        match &self.subject {
            Subject::Program(name) => name,
            _ => "",
        }
    }

    /// Returns the problem as one of a host.
    #[must_use]
    pub fn on(self, host: &HostName) -> Self {
        Self {
            host: Some(host.clone()),
            ..self
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(f, "{host}: ")?;
        }
        write!(f, "{}\n  hint: {}", self.what, self.hint)
    }
}
