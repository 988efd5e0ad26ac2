//! What a run of `registry move` does: it begins a move, goes on with one, or undoes it.

use std::collections::BTreeSet;

use kubexm_config::Cluster;
use kubexm_session::CommandError;
use kubexm_session::begun::{MoveRecord, MoveStage as Stage, joined, refused};
use kubexm_types::HostName;

/// What this run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// Begins a move, or continues it from the start. Steps that are complete change nothing.
    Move,
    /// Undoes a move.
    Cancel,
    /// Ends former registries, which no host uses any more.
    End,
}

/// What the options name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The hosts that get a registry.
    pub(super) to: &'a [HostName],
    /// The hosts that lose it; empty for all that have one.
    pub(super) from: &'a [HostName],
    /// Whether to undo a move that has begun.
    pub(super) cancel: bool,
}

/// Chooses what to do about the move that the options name, and the one that has begun.
///
/// # Errors
/// The hosts cannot have, or lose, a registry. Another move has begun, or none that can be cancelled.
pub(super) fn choose(
    wanted: Wanted<'_>,
    cluster: &Cluster,
    begun: Option<MoveRecord>,
) -> Result<(Course, MoveRecord), CommandError> {
    let Some(record) = begun else {
        return if wanted.cancel {
            Err(
                CommandError::refused("cannot cancel a move of registries: none has begun")
                    .hint("kubexm registry list names the hosts with registries"),
            )
        } else {
            Ok((Course::Move, new(wanted, cluster)?))
        };
    };
    let course = match (record.stage, wanted.cancel) {
        (Stage::Begun | Stage::Cancelled | Stage::Undone, true) => Course::Cancel,
        (Stage::Ending | Stage::Moved, true) => {
            return Err(refused("cannot cancel the move of registries", &record));
        }
        (Stage::Cancelled | Stage::Undone, false) => {
            return Err(refused("cannot move registries now", &record));
        }
        (Stage::Begun, false) => Course::Move,
        (Stage::Ending | Stage::Moved, false) => Course::End,
    };
    let from = if wanted.from.is_empty() {
        record.from.as_slice()
    } else {
        wanted.from
    };
    if wanted.cancel || record.is_of(from, wanted.to) {
        Ok((course, record))
    } else {
        Err(refused("cannot begin a move of registries", &record))
    }
}

/// Returns the record of a move that begins.
fn new(wanted: Wanted<'_>, cluster: &Cluster) -> Result<MoveRecord, CommandError> {
    let present = &cluster.roles.registry;
    let refused = |what: String, hint: String| {
        CommandError::refused(format!("cannot move registries: {what}")).hint(hint)
    };
    for names in [wanted.to, wanted.from] {
        let mut known = BTreeSet::new();
        if let Some(name) = names.iter().find(|name| !known.insert(*name)) {
            let what = format!("the host '{name}' is named twice");
            return Err(refused(what, "name each host once".to_owned()));
        }
    }
    for name in wanted.to.iter().chain(wanted.from) {
        if cluster.host(name).is_none() {
            let hint = "add the host to the cluster first: kubexm node add";
            let what = format!("the cluster file does not have the host '{name}'");
            return Err(refused(what, hint.to_owned()));
        }
    }
    let from: Vec<HostName> = if wanted.from.is_empty() {
        present.clone()
    } else {
        wanted.from.to_vec()
    };
    if let Some(name) = from.iter().find(|name| !present.contains(name)) {
        let what = format!("{name} has no registry in the cluster file");
        let hint = format!("these hosts have one: {}", joined(present));
        return Err(refused(what, hint));
    }
    if let Some(name) = wanted.to.iter().find(|name| present.contains(name)) {
        let what = format!("{name} has a registry already");
        let hint = "name other hosts with --to; --from HOST keeps the registries of the others";
        return Err(refused(what, hint.to_owned()));
    }
    Ok(MoveRecord {
        before: present.clone(),
        from,
        to: wanted.to.to_vec(),
        stage: Stage::Begun,
        is_copied: false,
    })
}

#[cfg(test)]
mod tests;
