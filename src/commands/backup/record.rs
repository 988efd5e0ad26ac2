//! The record of a restore that has begun. A restore that was interrupted continues with it.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{CommandError, FileError};
use kubexm_deploy::backup::Phase;
use kubexm_types::{Digest, UtcTime};

/// The file in the state directory.
pub(super) const FILE: &str = "restore.json";

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
        }
    }

    /// Returns the restore that has begun; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or it is not such a record.
    pub(super) fn load(state: &Path) -> Result<Option<Self>, CommandError> {
        let path = state.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::io("read", &path, &error).into()),
        };
        let record = serde_json::from_str(&text).map_err(|error| {
            FileError::new("read", &path, &error)
                .hint("remove the file; the restore then begins again")
        })?;
        Ok(Some(record))
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
        let path = state.join(FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(FileError::io("remove", &path, &error).into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
