//! The record of a move that has begun. It stays in the state directory until the cluster file names the new registries.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Standing, StateRecord};
use crate::CommandError;
use kubexm_config::Cluster;
use kubexm_types::HostName;

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// The former registries serve, and have all images.
    Begun,
    /// The move is being undone.
    Cancelled,
    /// The move was undone. The cluster file names other registries than before the move.
    Undone,
    /// Nodes use the new registries alone; the former ones end.
    Ending,
    /// The former registries have ended. The cluster file names other registries than after the move.
    Moved,
}

/// A move that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveRecord {
    /// The hosts with a registry before the move.
    pub before: Vec<HostName>,
    /// The hosts that lose it.
    pub from: Vec<HostName>,
    /// The hosts that get one.
    pub to: Vec<HostName>,
    pub stage: Stage,
    /// Whether the new registries have all images.
    pub is_copied: bool,
}

impl StateRecord for MoveRecord {
    const FILE: &'static str = "registry-move.json";
    const TITLE: &'static str = "the record of the move of registries";
    const HINT: &'static str = "remove the file if no move of registries has begun";
}

impl MoveRecord {
    /// Returns the move that is not complete, without hosts that have left the cluster since; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or it is not such a record.
    pub fn load(cluster: &Cluster, state: &Path) -> Result<Option<Self>, CommandError> {
        let record = Self::read(state)?;
        Ok(record.and_then(|record| record.open(cluster)))
    }

    /// Returns the move without hosts that have left the cluster since; `None` if it is complete.
    pub(super) fn open(mut self, cluster: &Cluster) -> Option<Self> {
        for names in [&mut self.before, &mut self.from, &mut self.to] {
            names.retain(|name| cluster.host(name).is_some());
        }
        let is_complete = match self.stage {
            Stage::Begun | Stage::Cancelled => false,
            Stage::Undone => names(cluster, &self.before),
            // A host that is lost was removed from the cluster.
            Stage::Ending => self.from.is_empty() && names(cluster, &self.after()),
            Stage::Moved => names(cluster, &self.after()),
        };
        (!is_complete).then_some(self)
    }

    /// Whether this is a move from and to these hosts.
    pub fn is_of(&self, from: &[HostName], to: &[HostName]) -> bool {
        is_same(&self.from, from) && is_same(&self.to, to)
    }

    /// Returns the hosts that keep their registry.
    pub fn kept(&self) -> Vec<HostName> {
        let kept = self.before.iter();
        let kept = kept.filter(|name| !self.from.contains(name));
        kept.cloned().collect()
    }

    /// Returns the hosts with a registry after the move.
    pub fn after(&self) -> Vec<HostName> {
        [self.kept(), self.to.clone()].concat()
    }

    /// Returns whether the registries of the cluster file have all images.
    pub fn has_images(&self, cluster: &Cluster) -> bool {
        match self.stage {
            Stage::Begun | Stage::Cancelled => names(cluster, &self.before),
            Stage::Ending => names(cluster, &self.after()),
            Stage::Undone | Stage::Moved => false,
        }
    }

    /// Returns what other commands wait for.
    pub(super) fn refusal(&self) -> Standing {
        Standing {
            what: self.standing(),
            hint: self.hint(),
        }
    }

    /// Returns what the move is, as in `move of the registries from node1 to node3`.
    pub fn title(&self) -> String {
        let list = |names: &[HostName]| {
            if names.is_empty() {
                "hosts that have left the cluster".to_owned()
            } else {
                joined(names)
            }
        };
        format!(
            "move of the registries from {} to {}",
            list(&self.from),
            list(&self.to)
        )
    }

    /// Returns the command that goes on with the move.
    pub fn command(&self) -> String {
        let list = |names: &[HostName]| joined(names).replace(", ", ",");
        let from = if self.from.is_empty() {
            String::new()
        } else {
            format!(" --from {}", list(&self.from))
        };
        format!("kubexm registry move{from} --to {}", list(&self.to))
    }

    /// Returns how the user goes on.
    pub fn hint(&self) -> String {
        let again = self.command();
        let edit = |names: &[HostName]| {
            format!(
                "write registry: [{}] into spec.roleGroups of the cluster file",
                joined(names)
            )
        };
        match self.stage {
            Stage::Begun if self.to.is_empty() => {
                "undo it with kubexm registry move --cancel".to_owned()
            }
            Stage::Begun if self.before.is_empty() => format!("complete the move with {again}"),
            Stage::Begun => format!(
                "complete the move with {again}, or undo it with kubexm registry move --cancel"
            ),
            Stage::Cancelled => "complete this with kubexm registry move --cancel".to_owned(),
            Stage::Undone => edit(&self.before),
            Stage::Ending if self.from.is_empty() => edit(&self.after()),
            Stage::Ending => format!("complete the move with {again}"),
            Stage::Moved => edit(&self.after()),
        }
    }

    /// Returns how far the move is, in a line.
    pub fn standing(&self) -> String {
        let how = match self.stage {
            Stage::Begun => "was interrupted",
            Stage::Cancelled => "is being cancelled",
            Stage::Undone => "was cancelled, and the cluster file does not have the former hosts",
            Stage::Ending => "was interrupted while the former registries ended",
            Stage::Moved => "is complete, and the cluster file does not have the new hosts",
        };
        format!("the {} {how}", self.title())
    }
}

pub fn is_same(one: &[HostName], other: &[HostName]) -> bool {
    let set = |names: &[HostName]| -> BTreeSet<HostName> { names.iter().cloned().collect() };
    set(one) == set(other)
}

/// Joins names for people.
pub fn joined<'a>(names: impl IntoIterator<Item = &'a HostName>) -> String {
    let names: Vec<&str> = names.into_iter().map(HostName::as_str).collect();
    names.join(", ")
}

/// Whether the cluster file names these registries.
fn names(cluster: &Cluster, registries: &[HostName]) -> bool {
    is_same(&cluster.roles.registry, registries)
}

/// Refuses to install new hosts with registries that a move has ended.
///
/// # Errors
/// A move is past its point of no return, and the cluster file does not name the new registries.
pub fn permit_new_hosts(cluster: &Cluster, state: &Path) -> Result<(), CommandError> {
    let record = MoveRecord::load(cluster, state)?;
    let record = record.filter(|record| matches!(record.stage, Stage::Ending | Stage::Moved));
    match record {
        Some(record) if !names(cluster, &record.after()) => {
            let moved = MoveRecord {
                stage: Stage::Moved,
                ..record
            };
            Err(refused("cannot restore the cluster", &moved))
        }
        _ => Ok(()),
    }
}

/// Returns an error about a move that is not complete.
pub fn refused(what: &str, record: &MoveRecord) -> CommandError {
    CommandError::refused(format!("{what}: {}", record.standing())).hint(record.hint())
}

#[cfg(test)]
mod tests;
