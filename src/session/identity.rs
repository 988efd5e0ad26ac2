//! Which cluster the state directory and the hosts belong to. Install and reset work only on hosts of the same
//! cluster, and take the locks of the hosts first.

mod removed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use futures_util::future::join_all;

use crate::authorities::Known;
use crate::session::Hosts;
use crate::state_record::StateRecord;
use crate::{CommandError, FileError, authorities, certificates, preflight};
use kubexm_config::Cluster;
use kubexm_engine::cluster::{ClusterRecord, claim};
use kubexm_engine::plan::{Journal, StepError};
use kubexm_host::Facts;
use kubexm_preflight::Finding;
use kubexm_preflight::identity::{self, Controller, Expected, Origin};
use kubexm_types::event::Events;
use kubexm_types::{
    Authority, ClusterId, ClusterIdentity, Digest, FindingKind, HostName, InvalidValue,
};

/// What a host is to the cluster, by host.
pub type Origins = BTreeMap<HostName, Origin>;

/// A cluster whose state directory is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostCluster {
    /// The cluster with this ID.
    Id(ClusterId),
    /// A cluster of an earlier version of kubexm, which has no ID.
    Unrecorded,
}

impl FromStr for LostCluster {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::Unrecorded),
            _ => ClusterId::parse(text).map(Self::Id),
        }
    }
}

/// The cluster of a state directory.
pub struct KnownCluster {
    name: HostName,
    state: PathBuf,
    record: Option<ClusterRecord>,
    controller: Controller,
}

impl StateRecord for ClusterRecord {
    const FILE: &'static str = Self::FILE;
    const TITLE: &'static str = "the record of the cluster";
    const HINT: &'static str =
        "restore the file from a backup of the state directory, or correct --state";
}

impl KnownCluster {
    /// Reads what the state directory knows about the cluster. Writes nothing.
    ///
    /// # Errors
    /// The state directory is that of another cluster, its record is damaged, or it does not have a CA that the
    /// cluster has.
    pub fn read(cluster: &Cluster, state: &Path) -> Result<Self, CommandError> {
        let record = ClusterRecord::read(state)?;
        if let Some(identity) = record.as_ref().map(ClusterRecord::identity)
            && identity.name.as_str() != cluster.name
        {
            let cause = format!(
                "it is of {identity}, and the cluster file is of '{}'",
                cluster.name
            );
            return Err(FileError::new("use the state directory", state, cause)
                .hint("pass another directory with --state, or correct metadata.name")
                .into());
        }
        let known = Known::of(state)?;
        let controller = Controller {
            identity: record.as_ref().map(|record| record.identity().clone()),
            state: state.display().to_string(),
            authorities: expected(cluster, state, record.as_ref())?,
            rotation: known.rotation,
            ending: known.ending,
            began_on: Journal::hosts(state),
            has_authorities: authorities::are_given(state),
            accept_earlier: false,
        };
        Ok(Self {
            name: cluster.name.parse().map_err(CommandError::defect)?,
            state: state.to_owned(),
            record,
            controller,
        })
    }

    /// Accepts hosts of a cluster whose state directory is lost.
    ///
    /// # Errors
    /// The state directory is that of a cluster.
    pub fn assume(&mut self, lost: LostCluster) -> Result<(), CommandError> {
        if let Some(record) = &self.record {
            let cause = format!("it is of {}", record.identity());
            let error = FileError::new(
                "use --cluster-id with the state directory",
                &self.state,
                cause,
            );
            return Err(error
                .hint("leave out --cluster-id, or pass an empty directory with --state")
                .into());
        }
        match lost {
            LostCluster::Unrecorded => self.controller.accept_earlier = true,
            LostCluster::Id(id) => {
                let identity = ClusterRecord::new(self.name.clone())
                    .map_err(|error| cannot_save(&self.state, error))?
                    .identity()
                    .clone();
                self.controller.identity = Some(ClusterIdentity { id, ..identity });
            }
        }
        Ok(())
    }

    /// Returns what each host is to the cluster.
    ///
    /// # Errors
    /// A host belongs to another cluster. The findings are also events.
    pub fn origins(
        &self,
        cluster: &Cluster,
        facts: &BTreeMap<HostName, Facts>,
        events: &Events,
    ) -> Result<Origins, CommandError> {
        identity::origins(cluster, &self.controller, facts).map_err(|findings| {
            match preflight::report(&findings, events) {
                Err(error) => error,
                Ok(()) => CommandError::NotReady(findings),
            }
        })
    }

    /// Returns the hosts of the cluster that are not in the cluster file, and that no command has removed.
    pub fn absent(&self, cluster: &Cluster) -> Vec<&HostName> {
        let removed = self.removed();
        let is_absent =
            |name: &&HostName| cluster.host(name).is_none() && !removed.contains_key(*name);
        self.hosts().filter(is_absent).collect()
    }

    /// Compares the authorities on all hosts, and finds hosts that are no longer in the cluster file.
    pub fn findings(&self, cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Vec<Finding> {
        let mut findings = identity::check(cluster, &self.controller, facts);
        let removed = self.removed();
        for name in self.absent(cluster) {
            let what = "belongs to this cluster and is not in the cluster file: an install does not change it";
            let hint = format!(
                "remove it from the cluster with a cluster file that still has it with all its roles: kubexm node remove {name}"
            );
            findings.push(Finding::new(
                FindingKind::Membership,
                name,
                false,
                what.to_owned(),
                &hint,
            ));
        }
        findings.extend(
            removed
                .iter()
                .filter_map(|(name, removal)| removed::finding(cluster, name, removal)),
        );
        findings
    }

    /// Records the cluster before the first change: in the state directory with its hosts and authorities, then on
    /// every host.
    ///
    /// # Errors
    /// A record cannot be written.
    pub async fn begin_install(
        &mut self,
        cluster: &Cluster,
        hosts: &Hosts,
        facts: &BTreeMap<HostName, Facts>,
        origins: &Origins,
    ) -> Result<(), CommandError> {
        let mut record = self.record_or_new()?;
        record.add_hosts(hosts.keys());
        self.learn(&mut record, cluster, facts)?;
        record.save(&self.state)?;
        let identity = record.identity();
        let unrecorded = hosts
            .iter()
            .filter(|(name, _)| origins.get(*name) != Some(&Origin::Recorded));
        let claims = unrecorded.map(|(name, host)| async move {
            let claimed = claim(host.as_ref(), identity).await;
            claimed.map_err(|error| (name, error))
        });
        let failed: Vec<_> = join_all(claims)
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect();
        self.record = Some(record);
        failed_claims(failed)
    }

    /// Records the authorities that kubeadm created.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn end_install(
        &mut self,
        cluster: &Cluster,
        facts: &BTreeMap<HostName, Facts>,
    ) -> Result<(), CommandError> {
        let Some(mut record) = self.record.clone() else {
            return Ok(());
        };
        self.learn(&mut record, cluster, facts)?;
        record.save(&self.state)?;
        self.record = Some(record);
        Ok(())
    }

    /// Returns whether the record does not have the authorities of kubeadm yet.
    pub fn is_incomplete(&self) -> bool {
        let record = self.record.as_ref();
        record.is_some_and(|record| !record.authorities().contains_key(&Authority::Kubernetes))
    }

    /// Records which hosts a reset is going to revert.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn begin_reset(&mut self, origins: &Origins) -> Result<(), CommandError> {
        let touched = |origin: &Origin| *origin != Origin::Untouched;
        if self.record.is_none() {
            if !origins.values().any(touched) {
                return Ok(());
            }
            // The state directory is lost, or of an earlier version that did not record hosts.
            let mut record = self.record_or_new()?;
            let hosts = origins.iter().filter(|(name, origin)| {
                touched(origin) || self.controller.began_on.contains(*name)
            });
            record.add_hosts(hosts.map(|(name, _)| name));
            self.record = Some(record);
        }
        if let Some(record) = &mut self.record {
            let hosts = origins.iter().filter(|(_, origin)| touched(origin));
            record.begin_reset(hosts.map(|(name, _)| name));
            record.save(&self.state)?;
        }
        Ok(())
    }

    /// Records which hosts were reset completely. A host without a trace of kubexm counts if an earlier reset
    /// began to revert its changes.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn end_reset<'a>(
        &mut self,
        origins: &Origins,
        complete: impl IntoIterator<Item = &'a HostName>,
    ) -> Result<(), CommandError> {
        let Some(record) = &mut self.record else {
            return Ok(());
        };
        for name in complete {
            if origins.get(name) != Some(&Origin::Untouched) || record.is_resetting(name) {
                record.end_reset(name);
            }
        }
        record.save(&self.state)
    }

    /// Returns whether every host of the recorded cluster was reset: the cluster no longer exists, and its keys
    /// and certificates have no use.
    pub fn is_gone(&self) -> bool {
        let record = self.record.as_ref();
        record.is_some_and(|record| record.hosts().next().is_none())
    }

    /// Returns the hosts that still belong to the cluster.
    pub fn hosts(&self) -> impl Iterator<Item = &HostName> {
        self.record.iter().flat_map(ClusterRecord::hosts)
    }

    fn record_or_new(&self) -> Result<ClusterRecord, CommandError> {
        match (&self.record, &self.controller.identity) {
            (Some(record), _) => Ok(record.clone()),
            (None, Some(identity)) => Ok(ClusterRecord::of(identity.clone())),
            (None, None) => ClusterRecord::new(self.name.clone())
                .map_err(|error| cannot_save(&self.state, error)),
        }
    }

    fn learn(
        &self,
        record: &mut ClusterRecord,
        cluster: &Cluster,
        facts: &BTreeMap<HostName, Facts>,
    ) -> Result<(), CommandError> {
        let kept = certificates::kept(cluster, &self.state)?.into_iter();
        let kept = kept.filter_map(|(authority, kept)| Some((authority, kept.fingerprint?)));
        for (authority, fingerprint) in kept.chain(identity::of_kubeadm(cluster, facts)) {
            record.learn(authority, fingerprint);
        }
        Ok(())
    }
}

fn cannot_save(state: &Path, error: impl std::fmt::Display) -> CommandError {
    let file = state.join(ClusterRecord::FILE);
    FileError::new("write the record of the cluster", &file, error).into()
}

fn failed_claims(failed: Vec<(&HostName, StepError)>) -> Result<(), CommandError> {
    let mut lost = Vec::new();
    let mut others = Vec::new();
    for (name, error) in failed {
        match error {
            StepError::Host(error) => lost.push(error),
            other => others.push(format!("{name}: {other}")),
        }
    }
    match (others.is_empty(), lost.is_empty()) {
        (false, _) => Err(CommandError::step(others.join("\n"))),
        (true, false) => Err(CommandError::Hosts(lost)),
        (true, true) => Ok(()),
    }
}

/// Returns the authorities that the controller knows.
///
/// # Errors
/// The state directory does not have an authority of its record, or has another one.
fn expected(
    cluster: &Cluster,
    state: &Path,
    record: Option<&ClusterRecord>,
) -> Result<BTreeMap<Authority, Expected>, CommandError> {
    let recorded = record.map(ClusterRecord::authorities);
    let recorded = |authority| recorded.and_then(|all| all.get(&authority)).copied();
    let mut expected = BTreeMap::new();
    for (authority, kept) in certificates::kept(cluster, state)? {
        match recorded(authority) {
            // A switch that is interrupted can end before the record has the new authority.
            Some(known)
                if kept.fingerprint != Some(known)
                    && !certificates::is_in_rotation(cluster, state, authority, known)? =>
            {
                return Err(lost_authority(authority, known, &kept));
            }
            _ => drop(expected.insert(authority, kept)),
        }
    }
    let of_kubeadm = [
        Authority::Kubernetes,
        Authority::FrontProxy,
        Authority::Etcd,
        Authority::ServiceAccounts,
    ];
    for authority in of_kubeadm {
        if let Some(known) = recorded(authority) {
            let source = state.join(ClusterRecord::FILE).display().to_string();
            expected.entry(authority).or_insert(Expected {
                fingerprint: Some(known),
                source,
            });
        }
    }
    // An earlier version recorded no authority, but saved the kubeconfig.
    if let Some(known) = certificates::of_kubeconfig(&state.join("admin.conf")) {
        let source = state.join("admin.conf").display().to_string();
        expected.entry(Authority::Kubernetes).or_insert(Expected {
            fingerprint: Some(known),
            source,
        });
    }
    Ok(expected)
}

fn lost_authority(authority: Authority, known: Digest, kept: &Expected) -> CommandError {
    let found = match kept.fingerprint {
        Some(found) => format!("it has {found}"),
        None => "there is no such file".to_owned(),
    };
    FileError::new(
        "use the authority in",
        Path::new(&kept.source),
        format!("{found}, but the cluster has the {authority} {known}"),
    )
    .hint("restore the file from a backup: only kubexm certs rotate-ca and rotate-sa-key replace an authority")
    .into()
}

#[cfg(test)]
pub mod tests;
