//! The record of a restore that has begun. A restore that was interrupted continues with it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use super::{Standing, StateRecord};
use crate::CommandError;
use kubexm_deploy::backup::target_revision;
use kubexm_types::{Digest, UtcTime};

/// How long a restore can continue after the cluster works again. Later, the same command replaces the data once more.
const LONGEST: Duration = Duration::hours(24);

/// What a restore does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// Installs hosts that have no cluster.
    Install,
    /// Creates the new data beside the old one.
    Prepare,
    /// Stops the cluster and replaces the data.
    Replace,
    /// Starts etcd.
    Etcd,
    /// Starts the control planes.
    ControlPlanes,
    /// Restarts kubelets, and proves that the cluster works.
    Nodes,
    /// Installs again, if the hosts had no cluster: nodes can have other subnets than before.
    Reconcile,
}

/// A restore that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreRecord {
    /// Identifies the restore on hosts.
    pub id: String,
    /// The digest of the snapshot.
    pub snapshot: Digest,
    pub stage: Stage,
    /// Whether the hosts had no cluster.
    pub is_new: bool,
    /// Since when the control planes run with the data of the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works_since: Option<UtcTime>,
    /// When an install of new hosts succeeded first after that. It has done what the install at the end does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<UtcTime>,
    /// The revision of the restored data. A record of an earlier version has none.
    #[serde(default)]
    pub target: u64,
    /// The members of etcd, as `NAME=PEER`. A record of an earlier version has none.
    #[serde(default)]
    pub members: Vec<String>,
    /// Whether an earlier restore, in whose place this one is, has stopped the cluster.
    #[serde(default)]
    pub after_stop: bool,
}

fn now() -> UtcTime {
    UtcTime::now().whole_seconds()
}

impl StateRecord for RestoreRecord {
    const FILE: &'static str = "restore.json";
    const TITLE: &'static str = "the record of the restore";
    const HINT: &'static str = "remove the file; the restore then begins again";
}

impl RestoreRecord {
    /// Returns the record of a restore that begins.
    pub fn new(snapshot: Digest, is_new: bool) -> Self {
        Self {
            id: now().to_string().replace(['-', ':'], ""),
            snapshot,
            stage: if is_new {
                Stage::Install
            } else {
                Stage::Prepare
            },
            is_new,
            works_since: None,
            installed: None,
            target: target_revision(OffsetDateTime::now_utc()),
            members: Vec::new(),
            after_stop: false,
        }
    }

    /// Returns the same record for these members of etcd.
    pub fn of_members(self, members: Vec<String>) -> Self {
        Self { members, ..self }
    }

    /// Returns the same record in the place of one that has stopped the cluster, if it has.
    pub fn after(self, stopped: bool) -> Self {
        Self {
            after_stop: stopped,
            ..self
        }
    }

    /// Returns whether the cluster is stopped: an API server must not start with data that is half replaced.
    pub fn is_down(&self) -> bool {
        let range = if self.after_stop {
            Stage::Install..=Stage::ControlPlanes
        } else {
            Stage::Replace..=Stage::ControlPlanes
        };
        range.contains(&self.stage)
    }

    /// Returns the restore that this run continues; `None` if it begins again.
    ///
    /// `is_blank` states that no host has a cluster, and `began` when the command began: a record does not become too old while
    /// the command runs.
    pub fn continued(
        self,
        snapshot: Digest,
        members: &[String],
        is_blank: bool,
        began: OffsetDateTime,
    ) -> Option<Self> {
        // The new data names its members: without one of them, or with another one, it is created again.
        let has_others = !self.members.is_empty() && self.members != members;
        if has_others && self.stage < Stage::ControlPlanes {
            return None;
        }
        // Hosts that were installed once, and have no cluster, were reset or replaced meanwhile.
        let is_of_former_hosts = is_blank && self.stage > Stage::Install;
        let is_continued = self.snapshot == snapshot && !is_of_former_hosts && !self.is_past(began);
        is_continued.then_some(self)
    }

    /// Returns whether the cluster works for so long that the user expects the data of the backup once more.
    fn is_past(&self, began: OffsetDateTime) -> bool {
        if self.stage < Stage::Nodes || self.needs_install() {
            return false;
        }
        let since = if self.is_new {
            &self.installed
        } else {
            &self.works_since
        };
        since
            .as_ref()
            .is_none_or(|since| began - since.time() > LONGEST)
    }

    /// Returns whether new hosts wait for the install at the end. They need it, no matter how late it comes.
    fn needs_install(&self) -> bool {
        self.is_new && self.installed.is_none()
    }

    /// Returns whether the hosts are still new ones for a restore of another backup: they have nodes that its data does not
    /// describe. Later, they are those of a cluster that works.
    pub fn has_new_hosts(&self) -> bool {
        self.needs_install() && self.stage < Stage::Reconcile
    }

    /// Returns what other commands wait for.
    pub(super) fn refusal(&self) -> Standing {
        Standing {
            what: format!(
                "a restore of a backup began {} and is not complete",
                self.id
            ),
            hint: "run the same kubexm backup restore again, which completes it".to_owned(),
        }
    }

    /// Returns the record of the next stage.
    pub fn reaches(&self, stage: Stage) -> Self {
        let works = stage >= Stage::Nodes;
        Self {
            stage,
            works_since: works.then(|| self.works_since.clone().unwrap_or_else(now)),
            ..self.clone()
        }
    }
}

/// Records that an install has succeeded, also one that is not part of the restore. The record of a restore on new hosts then ends
/// a day later, as that of an existing cluster. Until then, the same command can let the pod network follow.
///
/// # Errors
/// The record cannot be read or written.
pub fn record_install(state: &Path) -> Result<(), CommandError> {
    let waits = |record: &RestoreRecord| record.stage >= Stage::Nodes && record.needs_install();
    match RestoreRecord::read(state)?.filter(waits) {
        None => Ok(()),
        Some(record) => RestoreRecord {
            installed: Some(now()),
            ..record
        }
        .save(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::begun::{self, Operation};

    fn permit(state: &Path, operation: Operation) -> Result<(), CommandError> {
        begun::permit(operation, &crate::example::cluster(), state)
    }

    /// Long before every test.
    fn long_ago() -> UtcTime {
        UtcTime::parse("2026-01-31T12:00:00Z").unwrap()
    }

    fn continued(record: &RestoreRecord, snapshot: Digest, is_blank: bool) -> bool {
        let began = OffsetDateTime::now_utc();
        record
            .clone()
            .continued(snapshot, &[], is_blank, began)
            .is_some()
    }

    #[test]
    fn restore_begins_anew_for_another_backup_and_on_other_hosts() {
        let (one, other) = (Digest::of(b"1"), Digest::of(b"2"));
        for is_new in [false, true] {
            let mut record = RestoreRecord::new(one, is_new);
            assert_eq!(continued(&record, one, true), is_new);
            assert!(!continued(&record, other, false));
            record = record.reaches(Stage::Nodes);
            assert!(continued(&record, one, false));
            // The hosts were reset.
            assert!(!continued(&record, one, true));
        }
    }

    #[test]
    fn restore_begins_anew_if_the_cluster_works_for_long() {
        let one = Digest::of(b"1");
        for stage in [Stage::Nodes, Stage::Reconcile] {
            let mut record = RestoreRecord::new(one, false).reaches(stage);
            assert!(record.works_since.is_some(), "{stage:?}");
            assert!(continued(&record, one, false), "{stage:?}");
            record.works_since = Some(long_ago());
            // At the last stage, a run that was killed has left the record: it would restore nothing, and report success.
            assert!(!continued(&record, one, false), "{stage:?}");
            let began = long_ago().time();
            assert!(record.clone().continued(one, &[], false, began).is_some());
            let next = record.reaches(Stage::Reconcile);
            assert_eq!(next.works_since, Some(long_ago()));
            record.works_since = None;
            assert!(!continued(&record, one, false), "{stage:?}");
        }
        let record = RestoreRecord::new(one, false).reaches(Stage::ControlPlanes);
        assert_eq!(record.works_since, None);
    }

    #[test]
    fn install_ends_the_record_of_new_hosts_after_a_day() {
        let state = tempfile::tempdir().unwrap();
        let load = || RestoreRecord::read(state.path()).unwrap().unwrap();
        let one = Digest::of(b"1");
        for stage in [Stage::Nodes, Stage::Reconcile] {
            let mut record = RestoreRecord::new(one, true).reaches(stage);
            record.works_since = Some(long_ago());
            // Without the install at the end, new hosts do not have all that they need.
            assert!(continued(&record, one, false), "{stage:?}");
            record.save(state.path()).unwrap();
            record_install(state.path()).unwrap();
            record = load();
            // The restore itself goes on after its own install, also in another run.
            assert!(continued(&record, one, false) && record.is_new, "{stage:?}");
            assert_eq!(record.stage, stage);
            assert!(!record.has_new_hosts(), "{stage:?}");
            record.installed = Some(long_ago());
            record.save(state.path()).unwrap();
            // Later installs do not prolong it.
            record_install(state.path()).unwrap();
            assert_eq!(load(), record);
            assert!(!continued(&record, one, false), "{stage:?}");
        }
    }

    #[test]
    fn install_leaves_other_records_as_they_are() {
        let state = tempfile::tempdir().unwrap();
        record_install(state.path()).unwrap();
        assert_eq!(RestoreRecord::read(state.path()).unwrap(), None);
        let new = RestoreRecord::new(Digest::of(b"1"), true);
        let existing = RestoreRecord::new(Digest::of(b"1"), false);
        for record in [
            new.clone(),
            new.reaches(Stage::Prepare),
            existing.clone(),
            existing.reaches(Stage::Reconcile),
        ] {
            record.save(state.path()).unwrap();
            record_install(state.path()).unwrap();
            assert_eq!(RestoreRecord::read(state.path()).unwrap(), Some(record));
        }
    }

    #[test]
    fn hosts_are_new_for_another_backup_until_the_cluster_works() {
        let is_new = |is_new, stage| {
            let record = RestoreRecord::new(Digest::of(b"1"), is_new);
            record.reaches(stage).has_new_hosts()
        };
        assert!(is_new(true, Stage::Install) && is_new(true, Stage::Nodes));
        assert!(!is_new(true, Stage::Reconcile) && !is_new(false, Stage::Nodes));
    }

    #[test]
    fn other_commands_wait_until_the_data_is_replaced() {
        let state = tempfile::tempdir().unwrap();
        let mut record = RestoreRecord::new(Digest::of(b"x"), false);
        for (stage, is_permitted) in [
            (Stage::Prepare, true),
            (Stage::Replace, false),
            (Stage::ControlPlanes, false),
            (Stage::Nodes, true),
        ] {
            record.stage = stage;
            record.save(state.path()).unwrap();
            let refused = permit(state.path(), Operation::Install);
            assert_eq!(refused.is_ok(), is_permitted, "{stage:?}");
            permit(state.path(), Operation::BackupRestore).unwrap();
        }
    }

    /// Its hint names this way, and the new data of the others waits for the lost member.
    #[test]
    fn restore_begins_anew_without_a_lost_member() {
        let (one, began) = (Digest::of(b"1"), OffsetDateTime::now_utc());
        let members = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let (all, two) = (members(&["a=1", "b=2", "c=3"]), members(&["a=1", "b=2"]));
        for (stage, continues) in [
            (Stage::Prepare, false),
            (Stage::Etcd, false),
            (Stage::ControlPlanes, true),
        ] {
            let record = RestoreRecord::new(one, false)
                .of_members(all.clone())
                .reaches(stage);
            let continued =
                |members: &[String]| record.clone().continued(one, members, false, began);
            assert!(continued(&all).is_some());
            assert_eq!(continued(&two).is_some(), continues, "{stage:?}");
        }
        // The record of an earlier version does not know them.
        assert!(
            RestoreRecord::new(one, false)
                .continued(one, &two, false, began)
                .is_some()
        );
    }

    #[test]
    fn cluster_that_an_earlier_restore_has_stopped_stays_closed() {
        let state = tempfile::tempdir().unwrap();
        let record = RestoreRecord::new(Digest::of(b"x"), false).after(true);
        for (stage, is_permitted) in [(Stage::Prepare, false), (Stage::Nodes, true)] {
            record.reaches(stage).save(state.path()).unwrap();
            assert_eq!(
                permit(state.path(), Operation::Install).is_ok(),
                is_permitted,
                "{stage:?}"
            );
        }
    }

    #[test]
    fn restore_continues_at_its_stage() {
        let state = tempfile::tempdir().unwrap();
        let load = || RestoreRecord::read(state.path()).unwrap();
        assert_eq!(load(), None);
        let mut record = RestoreRecord::new(Digest::of(b"x"), true);
        assert_eq!((record.stage, record.id.len()), (Stage::Install, 16));
        record.stage = Stage::Etcd;
        record.save(state.path()).unwrap();
        assert_eq!(load(), Some(record));
        RestoreRecord::remove(state.path()).unwrap();
        RestoreRecord::remove(state.path()).unwrap();
        assert_eq!(load(), None);
        assert!(Stage::Install < Stage::Prepare && Stage::Nodes < Stage::Reconcile);
    }

    #[test]
    fn record_of_an_earlier_version_keeps_its_times() {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join(RestoreRecord::FILE);
        let text = |time: &str| {
            let snapshot = Digest::of(b"x");
            format!(
                "{{\"id\": \"20260131T093000Z\", \"snapshot\": \"{snapshot}\", \"stage\": \"nodes\", \
                 \"isNew\": true, \"worksSince\": \"{time}\", \"installed\": \"{time}\"}}"
            )
        };
        std::fs::write(&file, text("2026-01-31T09:30:00Z")).unwrap();
        let record = RestoreRecord::read(state.path()).unwrap().unwrap();
        record.save(state.path()).unwrap();
        let written = std::fs::read_to_string(&file).unwrap();
        let times = written.matches("\"2026-01-31T09:30:00Z\"").count();
        assert_eq!(times, 2, "{written}");
        std::fs::write(&file, text("2026-02-31T09:30:00Z")).unwrap();
        let refused = RestoreRecord::read(state.path()).unwrap_err().to_string();
        assert!(refused.contains("expected a time in UTC"), "{refused}");
    }
}
