//! `reset`: reverts the changes that the receipts on the hosts record, and nothing else.

use std::path::{Path, PathBuf};

use futures_util::future::join_all;

use crate::identity::KnownCluster;
pub use crate::identity::LostCluster;
use crate::rollback;
use crate::session::{self, Hosts};
use crate::stop::{AGAIN, Stop, in_time, unless_stopped};
use crate::{CommandError, Connection, notices};
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_engine::reset::{ResetError, reset_host};
use kubexm_types::HostName;
use kubexm_types::event::{Event, Events};

/// Which cluster to reset.
#[derive(Debug, Clone)]
pub struct ResetOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The cluster of the hosts, if its state directory is lost.
    pub lost: Option<LostCluster>,
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
    let state = options.connection.state_directory(&cluster, events)?;
    // Held until the end: no install may run at the same time.
    let journal = session::journal(&state)?;
    journal.begin("reset", "");
    events.phase("connect");
    let hosts = unless_stopped(stop, options.connection.connect(&cluster, &state)).await?;
    let hosts = session::logged(hosts, &state);
    let locks = session::lock(&hosts, &journal, "reset", events, stop).await?;
    let reset = reset_locked(&cluster, &state, &hosts, options.lost, events, stop).await;
    locks.release().await;
    let reverted = reset?;
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

/// Resets hosts whose locks this process has. Returns the number of reverted changes.
async fn reset_locked(
    cluster: &Cluster,
    state: &Path,
    hosts: &Hosts,
    lost: Option<LostCluster>,
    events: &Events,
    stop: &Stop,
) -> Result<usize, CommandError> {
    let mut known = KnownCluster::read(cluster, state)?;
    if let Some(lost) = lost {
        known.assume(lost)?;
    }
    let facts = unless_stopped(stop, session::gather(cluster, hosts)).await?;
    let origins = known.origins(cluster, &facts, events)?;
    known.begin_reset(&origins)?;
    events.phase("reset");
    let resetting = join_all(hosts.values().map(|host| reset_host(host, events, stop)));
    let Some(results) = in_time(stop, resetting).await else {
        return Err(CommandError::Interrupted(format!("stopped; {AGAIN}")));
    };
    if !stop.is_cancelled() {
        let ended = hosts.keys().zip(&results);
        let complete = ended.filter_map(|(name, result)| result.is_ok().then_some(name));
        known.end_reset(&origins, complete)?;
    }
    let reverted = judge(results)?;
    if stop.is_cancelled() {
        return Err(CommandError::Interrupted(format!("stopped; {AGAIN}")));
    }
    match known.is_gone() {
        true => forget(state),
        false => report_kept(&known, state, events),
    }
    Ok(reverted)
}

/// Reports why the keys of the cluster stay.
fn report_kept(known: &KnownCluster, state: &Path, events: &Events) {
    let hosts: Vec<&str> = known.hosts().map(HostName::as_str).collect();
    if !hosts.is_empty() {
        events.note(format!(
            "the certificates and the kubeconfig stay in {}: these hosts of the cluster were not reset: {}",
            state.display(),
            hosts.join(", ")
        ));
    }
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
    for name in ["admin.conf", "pki", ClusterRecord::FILE, rollback::RECORD] {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::tests::{Site, cluster, without_ids};

    async fn reset_on(site: &Site, state: &str, hosts: &Hosts) -> Result<usize, CommandError> {
        let _journal = site.journal(state);
        let state = site.state(state);
        reset_locked(&cluster(), &state, hosts, None, &site.events, &Stop::new()).await
    }

    /// Before, a reset with the file of cluster B removed cluster A.
    #[tokio::test]
    async fn hosts_of_another_cluster_are_not_reset() {
        let site = Site::new();
        site.install("first").await.unwrap();
        let refused = reset_on(&site, "second", &site.hosts).await.unwrap_err();
        insta::assert_snapshot!(without_ids(&site, &refused.to_string()), @"
        the hosts are not ready; nothing was touched
        node1: belongs to cluster 'example' [id], created [time] the state directory [site]/second has no record of a cluster
          hint: pass the state directory of that cluster with --state, or correct the address of the host in the cluster file; `kubexm reset` with that state directory, or with --cluster-id if it is lost, frees the host
        node2: belongs to cluster 'example' [id], created [time] the state directory [site]/second has no record of a cluster
          hint: pass the state directory of that cluster with --state, or correct the address of the host in the cluster file; `kubexm reset` with that state directory, or with --cluster-id if it is lost, frees the host
        ");
        assert!(site.is_installed("node1") && site.is_installed("node2"));
    }

    #[tokio::test]
    async fn hosts_of_a_lost_state_directory_are_reset_by_their_id() {
        let site = Site::new();
        site.install("lost").await.unwrap();
        let record = ClusterRecord::load(&site.state("lost")).unwrap().unwrap();
        std::fs::remove_dir_all(site.state("lost")).unwrap();
        let (state, stop) = (site.state("second"), Stop::new());
        drop(site.journal("second"));
        let reset = async |lost: &str| {
            let lost = Some(lost.parse().unwrap());
            reset_locked(&cluster(), &state, &site.hosts, lost, &site.events, &stop).await
        };
        reset("0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11")
            .await
            .unwrap_err();
        reset("none").await.unwrap_err();
        assert!(site.is_installed("node1"));
        let reverted = reset(&record.identity().id.to_string()).await;
        assert_eq!(reverted.unwrap(), 2);
        assert!(!site.is_installed("node1"));
        // The ID of another cluster is refused where the state directory has a record.
        site.install("second").await.unwrap();
        reset(&record.identity().id.to_string()).await.unwrap_err();
        assert!(site.is_installed("node1"));
    }

    #[tokio::test]
    async fn keys_of_a_cluster_are_removed_with_its_last_host() {
        let site = Site::new();
        site.install("state").await.unwrap();
        let pki = site.state("state").join("pki");
        let reverted = reset_on(&site, "state", &site.only("node1")).await;
        assert_eq!(reverted.unwrap(), 1);
        assert!(!site.is_installed("node1") && site.is_installed("node2"));
        assert!(pki.exists() && site.state("state").join("admin.conf").exists());
        assert!(!site.at("node1", "var/lib/kubexm").exists());
        reset_on(&site, "state", &site.hosts).await.unwrap();
        assert!(!site.is_installed("node2"));
        for name in ["pki", "admin.conf", ClusterRecord::FILE] {
            assert!(!site.state("state").join(name).exists(), "{name}");
        }
        // The hosts are free for another cluster.
        site.install("other").await.unwrap();
    }

    /// Before, a reset of other machines, or of machines that were installed again, removed the keys.
    #[tokio::test]
    async fn reset_of_hosts_without_a_receipt_keeps_the_keys() {
        let (site, elsewhere) = (Site::new(), Site::new());
        site.install("state").await.unwrap();
        assert_eq!(reset_on(&site, "state", &elsewhere.hosts).await.unwrap(), 0);
        assert!(site.state("state").join("pki").exists());
        assert!(site.state("state").join("admin.conf").exists());
        assert!(site.is_installed("node1"));
    }

    #[tokio::test]
    async fn cluster_of_an_earlier_version_is_reset_by_its_state_directory_only() {
        let site = Site::new();
        site.install("state").await.unwrap();
        site.write_ca("state");
        site.as_earlier("state");
        reset_on(&site, "other", &site.hosts).await.unwrap_err();
        assert!(site.is_installed("node1"));
        assert_eq!(reset_on(&site, "state", &site.hosts).await.unwrap(), 2);
        assert!(!site.is_installed("node1") && !site.state("state").join("pki").exists());
    }
}
