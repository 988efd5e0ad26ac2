//! The record of a move that has begun. It stays in the state directory until the cluster file names the new registries.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::joined;
use crate::{CommandError, FileError, state_record};
use kubexm_config::Cluster;
use kubexm_types::{HostName, write_atomic};

/// The file in the state directory.
pub(crate) const FILE: &str = "registry-move.json";

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Stage {
    /// Former and new registries serve. The former ones have all images.
    Begun,
    /// The move is being undone.
    Cancelled,
    /// Nodes use the new registries alone; the former ones end.
    Ending,
    /// The former registries have ended. The cluster file may still name them.
    Moved,
}

/// A move that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MoveRecord {
    /// The hosts with a registry before the move.
    pub(super) before: Vec<HostName>,
    /// The hosts that lose it.
    pub(super) from: Vec<HostName>,
    /// The hosts that get one.
    pub(super) to: Vec<HostName>,
    pub(super) stage: Stage,
}

impl MoveRecord {
    /// Returns the move that is not complete, without hosts that have left the cluster since; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or it is not such a record.
    pub(super) fn load(cluster: &Cluster, state: &Path) -> Result<Option<Self>, CommandError> {
        let record: Option<Self> = state_record::load(
            &state.join(FILE),
            "read the record of the move of registries",
            "restore the file from a backup of the state directory",
        )?;
        let Some(mut record) = record else {
            return Ok(None);
        };
        for names in [&mut record.before, &mut record.from, &mut record.to] {
            names.retain(|name| cluster.host(name).is_some());
        }
        let is_complete = record.stage == Stage::Moved && !record.is_in(cluster);
        Ok((!is_complete).then_some(record))
    }

    /// Whether the cluster file still names a former registry.
    fn is_in(&self, cluster: &Cluster) -> bool {
        let mut named = cluster.roles.registry.iter();
        named.any(|name| self.from.contains(name))
    }

    pub(super) fn save(&self, state: &Path) -> Result<(), CommandError> {
        let path = state.join(FILE);
        let text = serde_json::to_vec(self).map_err(CommandError::configuration)?;
        let saved = write_atomic(&path, &text, 0o600);
        Ok(saved.map_err(|error| FileError::io("write", &path, &error))?)
    }

    /// Whether this is a move from and to these hosts.
    pub(super) fn is_of(&self, from: &[HostName], to: &[HostName]) -> bool {
        let set = |names: &[HostName]| -> BTreeSet<HostName> { names.iter().cloned().collect() };
        set(&self.from) == set(from) && set(&self.to) == set(to)
    }

    /// Returns the hosts that keep their registry.
    pub(super) fn kept(&self) -> Vec<HostName> {
        let kept = self.before.iter();
        let kept = kept.filter(|name| !self.from.contains(name));
        kept.cloned().collect()
    }

    /// Returns the hosts with a registry after the move.
    pub(super) fn after(&self) -> Vec<HostName> {
        [self.kept(), self.to.clone()].concat()
    }

    /// Returns what the move is, as in `move of the registries from node1 to node3`.
    pub(super) fn title(&self) -> String {
        let list = |names: &[HostName]| match names.is_empty() {
            true => "hosts that have left the cluster".to_owned(),
            false => joined(names),
        };
        format!(
            "move of the registries from {} to {}",
            list(&self.from),
            list(&self.to)
        )
    }

    /// Returns how the user goes on.
    pub(super) fn hint(&self) -> String {
        let list = |names: &[HostName]| joined(names).replace(", ", ",");
        let again = format!(
            "kubexm registry move --from {} --to {}",
            list(&self.from),
            list(&self.to)
        );
        let is_possible = !self.from.is_empty() && !self.to.is_empty();
        match self.stage {
            Stage::Begun if !is_possible => "undo it with kubexm registry move --cancel".to_owned(),
            Stage::Begun => format!(
                "complete the move with {again}, or undo it with kubexm registry move --cancel"
            ),
            Stage::Cancelled => "complete this with kubexm registry move --cancel".to_owned(),
            Stage::Ending => format!("complete the move with {again}"),
            Stage::Moved => format!(
                "write registry: [{}] into spec.roleGroups of the cluster file",
                joined(&self.after())
            ),
        }
    }

    /// Returns how far the move is, in a line.
    pub(crate) fn standing(&self) -> String {
        let how = match self.stage {
            Stage::Begun => "was interrupted",
            Stage::Cancelled => "is being cancelled",
            Stage::Ending => "was interrupted while the former registries ended",
            Stage::Moved => "is complete, but the cluster file still has the former hosts",
        };
        format!("the {} {how}", self.title())
    }
}

/// Removes the record of a move that has ended, or whose hosts have another cluster.
///
/// # Errors
/// The file cannot be removed.
pub(crate) fn forget(state: &Path) -> Result<(), CommandError> {
    state_record::remove(&state.join(FILE))
}

/// Commands that work during a move: they do not decide where nodes find registries, or they end the cluster.
const PERMITTED: [&str; 5] = [
    "registry move",
    "reset",
    "backup create",
    "backup restore",
    "conformance",
];

/// Refuses a command that would let nodes use registries that a move ends or has ended. Removes the record of a move that the
/// cluster file agrees with.
///
/// # Errors
/// A move is not complete, and the command is not permitted meanwhile.
pub(crate) fn permit(cluster: &Cluster, state: &Path, command: &str) -> Result<(), CommandError> {
    let Some(record) = MoveRecord::load(cluster, state)? else {
        return forget(state);
    };
    // All former registries still serve, and a host that is lost would prevent both the move and its end.
    let is_removal = command == "node remove" && record.stage == Stage::Begun;
    if PERMITTED.contains(&command) || is_removal {
        return Ok(());
    }
    Err(CommandError::Configuration(format!(
        "cannot run {command} now: {}\nhint: {}",
        record.standing(),
        record.hint()
    )))
}

#[cfg(test)]
mod tests;
