//! The record of a replacement that has begun.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{CommandError, FileError, state_record};
use kubexm_types::{HostName, write_atomic};

/// A replacement that has begun. One that was interrupted continues with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplacementRecord {
    pub(super) names: Vec<HostName>,
    /// Whether the former hosts are out of the cluster.
    pub(super) removed: bool,
}

/// The file in the state directory.
pub(crate) const FILE: &str = "replacement.json";

/// Forgets a replacement of one of these hosts, which another command has added to the cluster or removed from it.
///
/// # Errors
/// The record cannot be read or removed.
pub(crate) fn end_replacement<'a>(
    state: &Path,
    names: impl IntoIterator<Item = &'a HostName>,
) -> Result<(), CommandError> {
    let Some(record) = ReplacementRecord::load(state)? else {
        return Ok(());
    };
    let mut names = names.into_iter();
    if names.any(|name| record.names.contains(name)) {
        ReplacementRecord::remove(state)
    } else {
        Ok(())
    }
}

/// Fails if a replacement has begun.
///
/// # Errors
/// It has, or its record cannot be read.
pub(crate) fn no_replacement_is_open(state: &Path, command: &str) -> Result<(), CommandError> {
    let Some(record) = ReplacementRecord::load(state)? else {
        return Ok(());
    };
    let names: Vec<&str> = record.names.iter().map(HostName::as_str).collect();
    Err(CommandError::Configuration(format!(
        "cannot run {command} now: a replacement of {} has begun\nhint: complete it with kubexm node replace {}",
        names.join(", "),
        names.join(" ")
    )))
}

impl ReplacementRecord {
    pub(super) fn is_of(&self, names: &[HostName]) -> bool {
        let set = |names: &[HostName]| -> BTreeSet<HostName> { names.iter().cloned().collect() };
        set(&self.names) == set(names)
    }

    pub(super) fn load(state: &Path) -> Result<Option<Self>, CommandError> {
        state_record::load(
            &state.join(FILE),
            "read",
            "remove the file; kubexm node replace then begins again",
        )
    }

    pub(super) fn save(&self, state: &Path) -> Result<(), CommandError> {
        let path = state.join(FILE);
        let text = serde_json::to_vec(self).map_err(CommandError::configuration)?;
        let saved = write_atomic(&path, &text, 0o600);
        Ok(saved.map_err(|error| FileError::io("write", &path, &error))?)
    }

    pub(super) fn remove(state: &Path) -> Result<(), CommandError> {
        state_record::remove(&state.join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacement_ends_with_another_command_that_adds_or_removes_a_host() {
        let folder = tempfile::tempdir().unwrap();
        let names: [HostName; 3] = ["node1", "node2", "node3"].map(|name| name.parse().unwrap());
        let record = ReplacementRecord {
            names: names[..2].to_vec(),
            removed: true,
        };
        assert!(record.is_of(&[names[1].clone(), names[0].clone()]));
        assert!(!record.is_of(&names[..1]));
        record.save(folder.path()).unwrap();
        end_replacement(folder.path(), &names[2..]).unwrap();
        assert_eq!(
            ReplacementRecord::load(folder.path()).unwrap(),
            Some(record)
        );
        end_replacement(folder.path(), &names[1..]).unwrap();
        assert_eq!(ReplacementRecord::load(folder.path()).unwrap(), None);
        end_replacement(folder.path(), &names).unwrap();
    }

    #[test]
    fn replacement_that_has_begun_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let load = || ReplacementRecord::load(folder.path()).unwrap();
        assert_eq!(load(), None);
        let record = ReplacementRecord {
            names: vec!["node1".parse().unwrap()],
            removed: true,
        };
        record.save(folder.path()).unwrap();
        assert_eq!(load(), Some(record));
        ReplacementRecord::remove(folder.path()).unwrap();
        ReplacementRecord::remove(folder.path()).unwrap();
        assert_eq!(load(), None);
        std::fs::write(folder.path().join(FILE), "x").unwrap();
        assert!(ReplacementRecord::load(folder.path()).is_err());
    }
}
