//! The record of a replacement that has begun.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Standing, StateRecord};
use crate::CommandError;
use kubexm_types::HostName;

/// A replacement that has begun. One that was interrupted continues with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementRecord {
    pub names: Vec<HostName>,
    /// Whether the former hosts are out of the cluster.
    pub removed: bool,
}

/// Forgets a replacement of one of these hosts, which another command has added to the cluster or removed from it.
///
/// # Errors
/// The record cannot be read or removed.
pub fn end_replacement<'a>(
    state: &Path,
    names: impl IntoIterator<Item = &'a HostName>,
) -> Result<(), CommandError> {
    let Some(record) = ReplacementRecord::read(state)? else {
        return Ok(());
    };
    let mut names = names.into_iter();
    if names.any(|name| record.names.contains(name)) {
        ReplacementRecord::remove(state)
    } else {
        Ok(())
    }
}

impl StateRecord for ReplacementRecord {
    const FILE: &'static str = "replacement.json";
    const TITLE: &'static str = "the record of the replacement";
    const HINT: &'static str = "remove the file; kubexm node replace then begins again";
}

impl ReplacementRecord {
    pub fn is_of(&self, names: &[HostName]) -> bool {
        let set = |names: &[HostName]| -> BTreeSet<HostName> { names.iter().cloned().collect() };
        set(&self.names) == set(names)
    }

    /// Returns what has begun.
    pub(super) fn refusal(&self) -> Standing {
        let names: Vec<&str> = self.names.iter().map(HostName::as_str).collect();
        Standing {
            what: format!("a replacement of {} has begun", names.join(", ")),
            hint: format!("complete it with kubexm node replace {}", names.join(" ")),
        }
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
            ReplacementRecord::read(folder.path()).unwrap(),
            Some(record)
        );
        end_replacement(folder.path(), &names[1..]).unwrap();
        assert_eq!(ReplacementRecord::read(folder.path()).unwrap(), None);
        end_replacement(folder.path(), &names).unwrap();
    }

    #[test]
    fn replacement_that_has_begun_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let load = || ReplacementRecord::read(folder.path()).unwrap();
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
        std::fs::write(folder.path().join(ReplacementRecord::FILE), "x").unwrap();
        assert!(ReplacementRecord::read(folder.path()).is_err());
    }
}
