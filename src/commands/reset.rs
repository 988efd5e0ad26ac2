//! `reset`: reverts the changes that the receipts on the hosts record, and nothing else.

mod dry_run;
mod hooks;
mod survey;

pub use dry_run::reset_dry_run;
pub(crate) use survey::roles;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::join_all;

use self::hooks::Hooks;
use crate::archive::{Archive, Occasion};
pub use crate::identity::LostCluster;
use crate::identity::{KnownCluster, Origins};
use crate::session::{self, Hosts};
use crate::stop::{AGAIN, Stop, in_time, unless_stopped};
use crate::{CommandError, Connection, listeners, notices, rollback, state_record, timer};
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_engine::reset::{HostReset, ResetError};
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
    // Held until the end: no install may run at the same time.
    let journal = Arc::new(session::journal(&state)?);
    journal.begin("reset", "");
    let events = &listeners::with_journal(events.clone(), Arc::clone(&journal));
    events.phase("connect");
    let connection = &options.connection;
    let connecting = connection.connect_reachable(&cluster, &state, events);
    let (hosts, unreachable) = unless_stopped(stop, connecting).await?;
    let hosts = session::watched(&session::logged(hosts, &state), events);
    let locks = session::lock(&cluster, &hosts, &journal, "reset", events, stop).await?;
    let mut archive = PathBuf::new();
    let save = async |resets: &[HostReset]| {
        let text = survey::survey(&cluster, &hosts, resets, &unreachable).await;
        events.note(text);
        if !confirm().await {
            return Err(CommandError::Configuration(NOT_CONFIRMED.to_owned()));
        }
        archive = save(&cluster, &state, &hosts, options.snapshot, events).await?;
        Ok(())
    };
    let reset = reset_locked(&cluster, &state, &hosts, options.lost, save, events, stop).await;
    locks.release().await;
    let reverted = reset?;
    if !unreachable.is_empty() {
        return Err(CommandError::NotReset(unreachable));
    }
    report_external_etcd(&cluster, events);
    for job in timer::installed(&cluster.name) {
        events.warn(format!(
            "this machine has a {job} timer of the cluster\n  hint: kubexm {job} timer remove removes it"
        ));
    }
    events.emit(Event::Summary {
        changed: reverted,
        unchanged: 0,
        ran: 0,
        kubeconfig: None,
    });
    Ok(ResetReport {
        reverted,
        hosts: hosts.len(),
        archive,
    })
}

const NOT_CONFIRMED: &str = "the reset was not confirmed; nothing was touched\nhint: type the cluster's name, or pass --yes";

/// Saves what cannot be created again. Returns the directory.
async fn save(
    cluster: &Cluster,
    state: &Path,
    hosts: &Hosts,
    snapshot: bool,
    events: &Events,
) -> Result<PathBuf, CommandError> {
    events.phase("archive");
    let archive = Archive::create(state, Occasion::Reset)?;
    if snapshot {
        // A damaged record ended the reset before.
        let record = ClusterRecord::load(state).ok().flatten();
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
    match known.is_gone() {
        true => forget(state),
        false => report_kept(&known, state, events),
    }
    Ok(reverted)
}

/// Does the same, and keeps what only a cluster without hosts does not need. Returns also what is known afterwards.
pub(crate) async fn revert(
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
        return Err(CommandError::Interrupted(format!("stopped\nhint: {AGAIN}")));
    };
    if !stop.is_cancelled() {
        let ended = hosts.keys().zip(&results);
        let complete = ended.filter_map(|(name, result)| result.is_ok().then_some(name));
        known.end_reset(&origins, complete)?;
    }
    let reverted = all(results)?.iter().map(|host| host.changes).sum();
    if stop.is_cancelled() {
        return Err(CommandError::Interrupted(format!("stopped\nhint: {AGAIN}")));
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
    match errors.is_empty() {
        true => Ok(values),
        false => Err(CommandError::Reset(errors)),
    }
}

/// Removes the certificates and the kubeconfig of a cluster that no longer exists. The archive contains them.
fn forget(state: &Path) {
    let names = [
        "admin.conf",
        "super-admin.conf",
        "pki",
        crate::backup::RESTORE_RECORD,
        crate::node::REPLACEMENT_RECORD,
        crate::registry::MOVE_RECORD,
        ClusterRecord::FILE,
        rollback::RECORD,
    ];
    for name in names.into_iter().chain(state_record::OF_HOSTS) {
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
    use std::sync::Mutex;

    use super::*;
    use crate::conformance;
    use crate::identity::tests::{Site, cluster, cluster_with, without_ids};
    use kubexm_types::event::Listener;

    async fn reset_locked(
        cluster: &Cluster,
        state: &Path,
        hosts: &Hosts,
        lost: Option<LostCluster>,
        events: &Events,
        stop: &Stop,
    ) -> Result<usize, CommandError> {
        let nothing = async |_: &[HostReset]| Ok(());
        super::reset_locked(cluster, state, hosts, lost, nothing, events, stop).await
    }

    async fn reset_on(site: &Site, state: &str, hosts: &Hosts) -> Result<usize, CommandError> {
        let _journal = site.journal(state);
        let state = site.state(state);
        reset_locked(&cluster(), &state, hosts, None, &site.events, &Stop::new()).await
    }

    #[tokio::test]
    async fn nothing_is_reverted_before_the_user_confirms_and_etcd_is_saved() {
        let site = Site::new();
        site.install("state").await.unwrap();
        let _journal = site.journal("state");
        let (state, cluster, stop) = (site.state("state"), cluster(), Stop::new());
        let refuse = async |resets: &[HostReset]| {
            assert_eq!(resets.len(), 2);
            let text = survey::survey(&cluster, &site.hosts, resets, &[]).await;
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(
                lines[0],
                "a reset deletes the cluster 'example' and its data from these hosts:"
            );
            assert!(
                lines[1].starts_with("  node1: control-plane") && lines[1].contains("1 changes"),
                "{text}"
            );
            Err(CommandError::Configuration(NOT_CONFIRMED.to_owned()))
        };
        let hosts = &site.hosts;
        let reset = super::reset_locked(&cluster, &state, hosts, None, refuse, &site.events, &stop);
        let error = reset.await.unwrap_err().to_string();
        assert!(error.starts_with("the reset was not confirmed"), "{error}");
        assert!(site.is_installed("node1") && site.is_installed("node2"));
        assert!(state.join("pki").exists());
    }

    /// Before, the free script of the second host ran, and the first host was already reset.
    #[tokio::test]
    async fn forged_receipt_of_one_host_protects_all_hosts() {
        let site = Site::new();
        site.install("state").await.unwrap();
        let receipt = site.at("node2", "var/lib/kubexm/receipt.jsonl");
        let mut text = std::fs::read_to_string(&receipt).unwrap();
        text.push_str(
            r#"{"step":"evil","undo":{"kind":"script","title":"Stop","script":"touch /etc/pwned","arguments":[]}}"#,
        );
        std::fs::write(&receipt, text).unwrap();
        let error = reset_on(&site, "state", &site.hosts).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("is not an undo script of kubexm"),
            "{error}"
        );
        assert!(site.is_installed("node1") && site.is_installed("node2"));
        assert!(!site.at("node2", "etc/pwned").exists());
        assert!(site.state("state").join("pki").exists());
    }

    #[tokio::test]
    async fn hooks_run_around_the_reset_of_each_host() {
        let site = Site::new();
        site.install("state").await.unwrap();
        let before = "{name: drain, phase: reset, when: before, content: 'test ! -e /etc/fail && cp /etc/installed /etc/before'}";
        let after = "{name: tidy, phase: reset, when: after, content: 'test ! -e /etc/installed && : >/etc/after'}";
        let cluster = cluster_with(&format!("system: {{hooks: [{before}, {after}]}}"));
        let reset = async || {
            let _journal = site.journal("state");
            let (state, stop) = (site.state("state"), Stop::new());
            self::reset_locked(&cluster, &state, &site.hosts, None, &site.events, &stop).await
        };
        std::fs::write(site.at("node2", "etc/fail"), "").unwrap();
        let error = reset().await.unwrap_err().to_string();
        assert!(
            error.contains("the hook 'drain' on node2 failed with exit status 1"),
            "{error}"
        );
        assert!(!site.is_installed("node1") && site.is_installed("node2"));
        let ran = |host, name: &str| site.at(host, &format!("etc/{name}")).exists();
        assert!(ran("node1", "before") && ran("node1", "after") && !ran("node2", "after"));
        std::fs::remove_file(site.at("node2", "etc/fail")).unwrap();
        reset().await.unwrap();
        assert!(!site.is_installed("node2") && ran("node2", "after"));
    }

    /// The titles of reverted changes, with the hosts.
    #[derive(Default)]
    struct Titles(Mutex<Vec<String>>);

    impl Listener for Titles {
        fn on(&self, event: &Event) {
            if let Event::Step { host, step, .. } = event {
                self.0.lock().unwrap().push(format!("{host}: {step}"));
            }
        }
    }

    /// Before, a control plane that was lost in this moment ended the reset of all hosts.
    #[tokio::test]
    async fn tests_of_a_killed_run_are_ended_as_a_change_of_their_host() {
        let site = Site::new();
        site.install("state").await.unwrap();
        let hosts = site.only("node1");
        for host in [&hosts, &hosts].into_iter().flat_map(Hosts::values) {
            conformance::record(host).await.unwrap();
        }
        std::fs::create_dir(site.at("node1", "var/lib/kubexm/conformance")).unwrap();
        let (titles, cluster, stop) = (Arc::new(Titles::default()), cluster(), Stop::new());
        let events = Events::new(Arc::clone(&titles) as _);
        let _journal = site.journal("state");
        let state = site.state("state");
        let reset = reset_locked(&cluster, &state, &hosts, None, &events, &stop);
        assert_eq!(reset.await.unwrap(), 2);
        let titles = titles.0.lock().unwrap();
        assert_eq!(
            *titles,
            [
                "node1: End conformance tests and remove their files",
                "node1: Remove /etc/installed",
            ]
        );
        assert!(!site.at("node1", "var/lib/kubexm").exists());
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
