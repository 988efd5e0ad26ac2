//! The record of a restore that has begun. A restore that was interrupted continues with it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::{CommandError, FileError, state_record};
use kubexm_deploy::backup::Phase;
use kubexm_types::{Digest, UtcTime};

/// The file in the state directory.
pub(crate) const FILE: &str = "restore.json";

/// How long a restore can continue after the cluster works again. Later, the same command replaces the data once more.
const LONGEST: Duration = Duration::hours(24);

/// What a restore does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Stage {
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

impl Stage {
    /// The stages of an existing cluster, with their plans.
    pub(super) const PLANNED: [(Self, Phase); 5] = [
        (Self::Prepare, Phase::Prepare),
        (Self::Replace, Phase::Replace),
        (Self::Etcd, Phase::Etcd),
        (Self::ControlPlanes, Phase::ControlPlanes),
        (Self::Nodes, Phase::Nodes),
    ];
}

/// A restore that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RestoreRecord {
    /// Identifies the restore on hosts.
    pub(super) id: String,
    /// The digest of the snapshot.
    pub(super) snapshot: Digest,
    pub(super) stage: Stage,
    /// Whether the hosts had no cluster.
    pub(super) is_new: bool,
    /// Since when the control planes run with the data of the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) works_since: Option<String>,
}

impl RestoreRecord {
    /// Returns the record of a restore that begins.
    pub(super) fn new(snapshot: Digest, is_new: bool) -> Self {
        let now = UtcTime::now().whole_seconds().to_string();
        Self {
            id: now.replace(['-', ':'], ""),
            snapshot,
            stage: match is_new {
                true => Stage::Install,
                false => Stage::Prepare,
            },
            is_new,
            works_since: None,
        }
    }

    /// Returns the restore that this run continues; `None` if it begins again.
    ///
    /// `is_blank` states that no host has a cluster.
    pub(super) fn continued(self, snapshot: Digest, is_blank: bool) -> Option<Self> {
        // Hosts that were installed once, and have no cluster, were reset or replaced meanwhile.
        let is_of_former_hosts = is_blank && self.stage > Stage::Install;
        // The cluster works since then, so that the user expects the data of the backup once more. New hosts need the install at
        // the end.
        let is_past = !self.is_new
            && self.stage == Stage::Nodes
            && self.works_for().is_none_or(|time| time > LONGEST);
        (self.snapshot == snapshot && !is_of_former_hosts && !is_past).then_some(self)
    }

    /// Returns how long the cluster works again; `None` if the record does not state it.
    fn works_for(&self) -> Option<Duration> {
        let since = OffsetDateTime::parse(self.works_since.as_deref()?, &Rfc3339).ok()?;
        Some(OffsetDateTime::now_utc() - since)
    }

    /// Returns the record of the next stage.
    pub(super) fn reaches(&self, stage: Stage) -> Self {
        let now = (stage == Stage::Nodes).then(|| UtcTime::now().whole_seconds().to_string());
        Self {
            stage,
            works_since: now.or_else(|| self.works_since.clone()),
            ..self.clone()
        }
    }

    /// Returns the restore that has begun; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or it is not such a record.
    pub(super) fn load(state: &Path) -> Result<Option<Self>, CommandError> {
        state_record::load(
            &state.join(FILE),
            "read",
            "remove the file; the restore then begins again",
        )
    }

    /// Writes the record.
    pub(super) fn save(&self, state: &Path) -> Result<(), CommandError> {
        let path = state.join(FILE);
        let text = serde_json::to_vec(self).map_err(CommandError::configuration)?;
        kubexm_types::write_atomic(&path, &text, 0o600)
            .map_err(|error| FileError::io("write", &path, &error))?;
        Ok(())
    }

    /// Removes the record of a complete restore.
    pub(super) fn remove(state: &Path) -> Result<(), CommandError> {
        state_record::remove(&state.join(FILE))
    }
}

/// Refuses a command that would start API servers, or change hosts, while the data of etcd is being replaced.
///
/// # Errors
/// A restore has begun to do so, and the command is another one.
pub(crate) fn permit(state: &Path, command: &str) -> Result<(), CommandError> {
    // These end the cluster, or remove a host that a restore cannot reach.
    if ["backup restore", "reset", "node remove"].contains(&command) {
        return Ok(());
    }
    let is_open =
        |record: &RestoreRecord| (Stage::Replace..=Stage::ControlPlanes).contains(&record.stage);
    match RestoreRecord::load(state)?.filter(is_open) {
        None => Ok(()),
        Some(record) => Err(CommandError::Configuration(format!(
            "cannot run {command} now: a restore of a backup began {} and is not complete\nhint: run the same \
             kubexm backup restore again, which completes it",
            record.id
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restore_begins_anew_for_another_backup_and_on_other_hosts() {
        let (one, other) = (Digest::of(b"1"), Digest::of(b"2"));
        for is_new in [false, true] {
            let mut record = RestoreRecord::new(one, is_new);
            let continued = |record: &RestoreRecord, snapshot, is_blank| {
                record.clone().continued(snapshot, is_blank).is_some()
            };
            assert_eq!(continued(&record, one, true), is_new);
            assert!(!continued(&record, other, false));
            record = record.reaches(Stage::Nodes);
            assert!(continued(&record, one, false));
            // The hosts were reset.
            assert!(!continued(&record, one, true));
            record.works_since = Some("2026-01-31T12:00:00Z".to_owned());
            // New hosts need the install at the end.
            assert_eq!(continued(&record, one, false), is_new);
            record.stage = Stage::Reconcile;
            assert!(continued(&record, one, false));
        }
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
            let refused = permit(state.path(), "install");
            assert_eq!(refused.is_ok(), is_permitted, "{stage:?}");
            permit(state.path(), "backup restore").unwrap();
        }
    }

    #[test]
    fn restore_continues_at_its_stage() {
        let state = tempfile::tempdir().unwrap();
        let load = || RestoreRecord::load(state.path()).unwrap();
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
}
