//! `reset`: reverts the changes that the receipts on the hosts record, and nothing else.

use std::path::{Path, PathBuf};

use futures_util::future::join_all;

use crate::session;
use crate::stop::{AGAIN, Stop, in_time, unless_stopped};
use crate::{CommandError, Connection, notices};
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_engine::reset::{ResetError, reset_host};
use kubexm_types::event::{Event, Events};

/// Which cluster to reset.
#[derive(Debug, Clone)]
pub struct ResetOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
}

/// What a reset did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetReport {
    /// The number of changes that were reverted.
    pub reverted: usize,
    /// The number of hosts.
    pub hosts: usize,
}

/// Returns the name of the cluster in a cluster file, which a user types to confirm a reset.
///
/// # Errors
/// The cluster file is wrong.
pub fn cluster_name(path: &Path) -> Result<String, CommandError> {
    Ok(kubexm_config::load_cluster(path)?.name)
}

/// Removes a cluster from its hosts.
///
/// # Errors
/// The cluster file is wrong, hosts cannot be reached, or a change cannot be reverted.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn reset(
    options: &ResetOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ResetReport, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster);
    // Held until the end: no install may run at the same time.
    let journal = session::journal(&state)?;
    journal.begin("reset", "");
    events.phase("connect");
    let hosts = unless_stopped(stop, options.connection.connect(&cluster)).await?;
    let hosts = session::logged(hosts, &state);
    events.phase("reset");
    let resetting = join_all(hosts.values().map(|host| reset_host(host, events, stop)));
    let Some(results) = in_time(stop, resetting).await else {
        return Err(CommandError::Interrupted(format!("stopped; {AGAIN}")));
    };
    let reverted = judge(results)?;
    if stop.is_cancelled() {
        return Err(CommandError::Interrupted(format!("stopped; {AGAIN}")));
    }
    forget(&state);
    report_external_etcd(&cluster, events);
    events.emit(Event::Summary {
        changed: reverted,
        unchanged: 0,
        ran: 0,
        kubeconfig: None,
    });
    Ok(ResetReport {
        reverted,
        hosts: hosts.len(),
    })
}

/// Returns the number of reverted changes, or an error that names every host that failed.
fn judge(results: Vec<Result<usize, ResetError>>) -> Result<usize, CommandError> {
    let mut reverted = 0;
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(count) => reverted += count,
            Err(error) => errors.push(error),
        }
    }
    match errors.is_empty() {
        true => Ok(reverted),
        false => Err(CommandError::Reset(errors)),
    }
}

/// Removes the certificates and the kubeconfig of a cluster that no longer exists.
fn forget(state: &Path) {
    for name in ["admin.conf", "pki"] {
        let path = state.join(name);
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
    }
}

fn report_external_etcd(cluster: &Cluster, events: &Events) {
    if let Etcd::External { endpoints, .. } = &cluster.etcd {
        events.note(format!(
            "the external etcd was left alone: it still contains the cluster's data, at {}; \
             etcdctl del --prefix {} removes it",
            endpoints.join(", "),
            cluster.etcd_prefix()
        ));
    }
}
