//! `reset`: reverts the changes that the receipts on the hosts record, and nothing else.

mod dry_run;
mod hooks;
mod survey;

pub use dry_run::reset_dry_run;
pub use survey::roles;

use std::path::{Path, PathBuf};

use futures_util::future::join_all;

use self::hooks::Hooks;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_engine::reset::{HostReset, ResetError};
use kubexm_host::HostError;
use kubexm_safekeeping::archive::{Archive, Occasion};
use kubexm_safekeeping::timer;
use kubexm_session::begun::{Operation, StateRecord};
use kubexm_session::change::{Change, Session};
pub use kubexm_session::identity::LostCluster;
use kubexm_session::identity::{KnownCluster, Origins};
use kubexm_session::rollback::{Newest, OtherBundles};
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::{AGAIN, Stop, in_time, unless_stopped};
use kubexm_session::verified::VerifiedBundle;
use kubexm_session::{CommandError, Connection, begun, kubeconfigs, notices};
use kubexm_types::event::{Event, Events};
use kubexm_types::{HostName, Message, WarningKind};

/// Which cluster to reset.
#[derive(Debug, Clone)]
pub struct ResetOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The cluster of the hosts, if its state directory is lost.
    pub lost: Option<LostCluster>,
    /// Whether to save a snapshot of etcd first.
    pub snapshot: bool,
}

/// What a reset did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetReport {
    /// The number of changes that were reverted.
    pub reverted: usize,
    /// The number of hosts.
    pub hosts: usize,
    /// The directory with the snapshot of etcd, the keys and the certificates.
    pub archive: PathBuf,
}

/// Returns the name of the cluster in a cluster file, which a user types to confirm a reset.
///
/// # Errors
/// The cluster file is wrong.
pub fn cluster_name(path: &Path) -> Result<String, CommandError> {
    Ok(kubexm_config::load_cluster(path)?.name)
}

/// Removes a cluster from the hosts that can be reached. Calls `confirm` before it changes anything, after a note that
/// lists hosts and data, and stops if it returns false.
///
/// # Errors
/// The cluster file is wrong, the user did not confirm, a receipt is not one of kubexm, no snapshot of etcd can be
/// taken, hosts cannot be reached, or a change cannot be reverted.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn reset(
    options: &ResetOptions,
    confirm: impl AsyncFn() -> bool,
    events: &Events,
    stop: &Stop,
) -> Result<ResetReport, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let change = Change {
        operation: Operation::Reset,
        cluster: &cluster,
        state: &state,
        lock: String::new(),
    };
    let connect = async |events: &Events| {
        events.phase("connect");
        let connection = &options.connection;
        connection.connect_reachable(&cluster, &state, events).await
    };
    let work = async |session: Session<'_>, unreachable: Vec<HostError>| {
        let (hosts, events) = (&session.observed, session.events);
        let mut archive = PathBuf::new();
        let save = async |resets: &[HostReset]| {
            let text = survey::survey(&cluster, hosts, resets, &unreachable).await;
            events.note(text);
            if !confirm().await {
                return Err(CommandError::configuration(
                    "the reset was not confirmed; nothing was touched",
                )
                .hint("type the cluster's name, or pass --yes"));
            }
            archive = save(&cluster, &state, hosts, options.snapshot, events).await?;
            Ok(())
        };
        let (lost, stop) = (options.lost, session.stop);
        let reverted = reset_locked(&cluster, &state, hosts, lost, save, events, stop).await?;
        let hosts = hosts.len();
        Ok((reverted, hosts, archive, unreachable))
    };
    let (reverted, hosts, archive, unreachable) = change.run(events, stop, connect, work).await?;
    if !unreachable.is_empty() {
        return Err(CommandError::NotReset(unreachable));
    }
    report_external_etcd(&cluster, events);
    for job in timer::installed(&cluster.name) {
        let text = format!("this machine has a {job} timer of the cluster");
        let hint = format!("kubexm {job} timer remove removes it");
        events.warn(WarningKind::Kept, Message::new(text).hint(hint));
    }
    events.emit(Event::Summary {
        changed: reverted,
        unchanged: 0,
        ran: 0,
        kubeconfig: None,
        offers: None,
    });
    Ok(ResetReport {
        reverted,
        hosts,
        archive,
    })
}

/// Saves what cannot be created again. Returns the directory.
async fn save(
    cluster: &Cluster,
    state: &Path,
    hosts: &Hosts,
    snapshot: bool,
    events: &Events,
) -> Result<PathBuf, CommandError> {
    events.phase("archive");
    let archive = Archive::create(state, Occasion::Reset, None, events)?;
    if snapshot {
        // A damaged record ended the reset before.
        let record = ClusterRecord::read(state).ok().flatten();
        let resetting = |name: &HostName| {
            let record = record.as_ref();
            record.is_some_and(|record| record.is_resetting(name))
        };
        let saved = archive.save_etcd(cluster, hosts, resetting, events).await?;
        if let Some(file) = saved {
            events.note(format!("a snapshot of etcd is in {}", file.display()));
        }
    }
    archive.save_authorities(cluster, hosts).await?;
    archive.save_state(state)?;
    archive.keep_newest(state, events);
    events.note(format!(
        "the keys and certificates of the cluster are in {}",
        archive.folder().display()
    ));
    Ok(archive.folder().to_owned())
}

/// Resets hosts whose locks this process has, and runs their hooks. Calls `prepare` with the validated records before the first change. Returns
/// the number of reverted changes.
async fn reset_locked(
    cluster: &Cluster,
    state: &Path,
    hosts: &Hosts,
    lost: Option<LostCluster>,
    prepare: impl AsyncFnOnce(&[HostReset]) -> Result<(), CommandError>,
    events: &Events,
    stop: &Stop,
) -> Result<usize, CommandError> {
    let (reverted, known) = revert(cluster, state, hosts, lost, prepare, events, stop).await?;
    if known.is_gone() {
        forget(state)
    } else {
        report_kept(&known, state, events)
    }
    Ok(reverted)
}

/// Does the same, and keeps what only a cluster without hosts does not need. Returns also what is known afterwards.
pub async fn revert(
    cluster: &Cluster,
    state: &Path,
    hosts: &Hosts,
    lost: Option<LostCluster>,
    prepare: impl AsyncFnOnce(&[HostReset]) -> Result<(), CommandError>,
    events: &Events,
    stop: &Stop,
) -> Result<(usize, KnownCluster), CommandError> {
    let examining = examine(cluster, state, hosts, lost, events);
    let Examined {
        hooks,
        mut known,
        origins,
        resets,
    } = unless_stopped(stop, examining).await?;
    unless_stopped(stop, prepare(&resets)).await?;
    known.begin_reset(&origins)?;
    events.phase("reset");
    let resetting = join_all(resets.iter().map(|reset| hooks.around(reset, events, stop)));
    let Some(results) = in_time(stop, resetting).await else {
        return Err(CommandError::interrupted("stopped").hint(AGAIN));
    };
    if !stop.is_cancelled() {
        let ended = hosts.keys().zip(&results);
        let complete = ended.filter_map(|(name, result)| result.is_ok().then_some(name));
        known.end_reset(&origins, complete)?;
    }
    let reverted = all(results)?.iter().map(|host| host.changes).sum();
    if stop.is_cancelled() {
        return Err(CommandError::interrupted("stopped").hint(AGAIN));
    }
    Ok((reverted, known))
}

/// What a reset knows before it changes anything.
struct Examined {
    hooks: Hooks,
    known: KnownCluster,
    origins: Origins,
    resets: Vec<HostReset>,
}

/// Reads the hooks and the records, and validates them. Changes nothing.
async fn examine(
    cluster: &Cluster,
    state: &Path,
    hosts: &Hosts,
    lost: Option<LostCluster>,
    events: &Events,
) -> Result<Examined, CommandError> {
    let hooks = Hooks::read(cluster)?;
    let mut known = KnownCluster::read(cluster, state)?;
    if let Some(lost) = lost {
        known.assume(lost)?;
    }
    let facts = session::gather(cluster, hosts).await?;
    let origins = known.origins(cluster, &facts, events)?;
    let resets = all(join_all(hosts.values().map(HostReset::read)).await)?;
    Ok(Examined {
        hooks,
        known,
        origins,
        resets,
    })
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

/// Returns all values, or an error that names every host that failed.
fn all<T>(results: Vec<Result<T, ResetError>>) -> Result<Vec<T>, CommandError> {
    let mut values = Vec::new();
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(values)
    } else {
        Err(CommandError::Reset(errors))
    }
}

/// Removes the certificates and the kubeconfig of a cluster that no longer exists. The archive contains them.
fn forget(state: &Path) {
    let names = [
        "admin.conf",
        "pki",
        ClusterRecord::FILE,
        Newest::FILE,
        OtherBundles::FILE,
        VerifiedBundle::FILE,
    ];
    let all = names.into_iter().chain(kubeconfigs::SUPER_ADMIN_FILES);
    for name in all.chain(begun::files()) {
        let path = state.join(name);
        let _ = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
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
mod tests;
