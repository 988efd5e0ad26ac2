//! What a backup is of, and where it goes.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::identity::BackupRecipients;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_pki::Recipients;
use kubexm_session::begun::StateRecord;
use kubexm_session::{CommandError, Connection, FileError, notices};
use kubexm_types::event::Events;

/// The directory of backups in a state directory.
const FOLDER: &str = "backups";

/// What to back up, and where to.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The directory of the backup; `None` for `backups` in the state directory.
    pub output: Option<PathBuf>,
    /// For whom it is encrypted.
    pub recipients: BackupRecipients,
    /// How many backups of the cluster stay in the directory; `None` for all.
    pub keep: Option<NonZeroUsize>,
}

/// What is known about a backup without a host.
pub(super) struct Request {
    pub(super) recipients: Recipients,
    pub(super) cluster: Cluster,
    pub(super) state: PathBuf,
    /// How etcd runs.
    pub(super) deployment: &'static str,
    pub(super) record: ClusterRecord,
    /// The directory of the backup. It need not exist.
    pub(super) folder: PathBuf,
}

impl Request {
    /// Reads the cluster file and the state directory.
    ///
    /// # Errors
    /// The cluster file is wrong, etcd is an external one, or the state directory is not the one of an install.
    pub(super) fn read(options: &CreateOptions, events: &Events) -> Result<Self, CommandError> {
        options.connection.check()?;
        let recipients = options.recipients.parsed()?;
        let cluster = kubexm_config::load_cluster(&options.cluster)?;
        notices::emit(&cluster.notices, events);
        let state = options.connection.state_directory(&cluster, events)?;
        let deployment = etcd_deployment(&cluster)?;
        let Some(record) = ClusterRecord::read(&state)? else {
            return Err(not_installed(&state));
        };
        let folder = match &options.output {
            Some(folder) => folder.clone(),
            None => state.join(FOLDER),
        };
        Ok(Self {
            recipients,
            cluster,
            state,
            deployment,
            record,
            folder,
        })
    }
}

/// Returns how etcd runs.
///
/// # Errors
/// kubexm does not run etcd.
pub fn etcd_deployment(cluster: &Cluster) -> Result<&'static str, CommandError> {
    match &cluster.etcd {
        Etcd::Kubeadm { .. } => Ok("kubeadm"),
        Etcd::Systemd { .. } => Ok("systemd"),
        Etcd::External { .. } => Err(CommandError::configuration(
            "kubexm does not back up or restore an external etcd",
        )
        .hint(
            "take a snapshot with `etcdctl snapshot save`, and keep the state directory with it; \
             after a restore of that etcd, restart kube-apiserver, kube-controller-manager, \
             kube-scheduler and every kubelet",
        )),
    }
}

fn not_installed(state: &Path) -> CommandError {
    let cause = "it has no record of a cluster, so it is not the one of an install";
    FileError::new("back up the cluster of the state directory", state, cause)
        .hint("pass the state directory of the install with --state")
        .into()
}
