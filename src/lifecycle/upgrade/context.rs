//! What an upgrade and a rollback work with.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_deploy::upgrade::Drain;
use kubexm_session::certificates::CaEncryption;
use kubexm_session::{ClusterSource, Connection};

/// What to upgrade, and how.
#[derive(Debug, Clone)]
pub struct UpgradeOptions {
    /// The cluster file with the new version, and its bundle.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to accept a bundle whose signature cannot be verified, because no key is trusted.
    pub unsigned: bool,
    /// Whether to accept a bundle that is older than the newest one that the cluster was installed from.
    pub allow_older: bool,
    /// What encrypts the keys of CAs; `None` for keys in clear text.
    pub ca_encryption: Option<CaEncryption>,
    /// How pods leave a node.
    pub drain: Drain,
    /// The number of workers that change at the same time.
    pub max_unavailable: NonZeroUsize,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// What an upgrade works with.
pub(super) struct Context<'a> {
    pub(super) options: &'a UpgradeOptions,
    pub(super) bundle: &'a Arc<BundleSet>,
    pub(super) cluster: &'a Cluster,
    pub(super) state: &'a Path,
}
