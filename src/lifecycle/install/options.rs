//! The options of an install.

use std::collections::BTreeSet;

use kubexm_config::Cluster;
use kubexm_session::certificates::CaEncryption;
use kubexm_session::failed_workers::FailedWorkers;
use kubexm_session::{ClusterSource, Connection};
use kubexm_types::HostName;

/// What to install, and where.
#[derive(Debug, Clone)]
pub struct InstallOptions {
    /// The cluster and its bundle.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to accept a bundle whose signature cannot be verified, because no key is trusted.
    pub unsigned: bool,
    /// Whether to install the cluster without workers that fail or cannot be reached. The hosts of `admitted` are needed.
    pub allow_failed: bool,
    /// Whether to accept a bundle that is older than the newest one that the cluster was installed from.
    pub allow_older: bool,
    /// What encrypts the keys of CAs; `None` for keys in clear text.
    pub ca_encryption: Option<CaEncryption>,
    /// The only hosts that may become part of the cluster, even if they were removed from it before; `None` for all hosts
    /// of the cluster file that were not removed.
    pub admitted: Option<BTreeSet<HostName>>,
}

impl InstallOptions {
    /// Starts without failed workers.
    pub(super) fn failed_workers(&self, cluster: &Cluster) -> FailedWorkers {
        FailedWorkers::new(cluster, self.allow_failed).but_for(self.admitted.iter().flatten())
    }
}
