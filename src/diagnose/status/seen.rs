//! What the hosts and the cluster answered.

use std::collections::BTreeMap;

use super::answers::Answers;
use super::applications::Installed;
use super::report::Problem;
use kubexm_config::Cluster;
use kubexm_deploy::objects::Node;
use kubexm_engine::cluster::Removal;
use kubexm_host::Facts;
use kubexm_lifecycle::plan::HostDiff;
use kubexm_safekeeping::certs::CertificateReport;
use kubexm_safekeeping::timer::TimerState;
use kubexm_session::rollback::Newest;
use kubexm_session::session::HostErrors;
use kubexm_types::{ClusterIdentity, HostName, Message};

/// What a host answered to the questions of the checks that preflight makes, too, or why it did not.
pub type Checked = Result<kubexm_host::Answers, Message>;

/// Everything that kubexm saw.
pub(super) struct Seen<'a> {
    pub(super) cluster: &'a Cluster,
    /// The cluster by the state directory; `None` if it has no record.
    pub(super) identity: Option<ClusterIdentity>,
    /// Hosts that were removed from the cluster.
    pub(super) removed: BTreeMap<HostName, Removal>,
    pub(super) bundle: Option<Newest>,
    pub(super) facts: BTreeMap<HostName, Facts>,
    pub(super) answers: BTreeMap<HostName, Answers>,
    /// What the checks read that preflight makes, too.
    pub(super) checked: BTreeMap<HostName, Checked>,
    /// Hosts that failed, or cannot be reached.
    pub(super) errors: HostErrors,
    /// The nodes; `None` if no API server is ready.
    pub(super) nodes: Option<Result<BTreeMap<String, Node>, String>>,
    /// The applications; `None` if no API server is ready.
    pub(super) applications: Option<Result<Installed, String>>,
    pub(super) certificates: CertificateReport,
    /// Problems of an etcd and of a registry that kubexm does not run.
    pub(super) findings: Vec<Problem>,
    /// The differences to the plan of an install; `None` without a bundle.
    pub(super) drift: Option<Vec<HostDiff>>,
    /// Why the bundle is not the one of the hosts; `None` if it is, or without a bundle.
    pub(super) other_bundle: Option<String>,
    /// The timers of this machine.
    pub(super) timers: Vec<TimerState>,
}
