//! `bundle diff`: the differences between two bundles or locks.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::lock_file;
use kubexm_bundle::lock::difference::differences;
pub use kubexm_bundle::lock::difference::{Difference, ItemKind};
use kubexm_session::CommandError;

/// The differences between two bundles or locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The differences, by name.
    pub differences: Vec<Difference>,
    /// The number of differences, by kind.
    pub summary: Vec<KindSummary>,
    /// The size in bytes of the blobs that only the second bundle contains.
    pub new_bytes: u64,
}

/// The number of differences of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindSummary {
    pub kind: ItemKind,
    pub changed: usize,
    pub added: usize,
    pub removed: usize,
}

impl std::fmt::Display for KindSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = [
            (self.changed, "changed"),
            (self.added, "added"),
            (self.removed, "removed"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        write!(f, "{}: {}", self.kind.plural(), counts.join(", "))
    }
}

/// Counts differences by kind.
fn summary(differences: &[Difference]) -> Vec<KindSummary> {
    let mut kinds: BTreeMap<ItemKind, KindSummary> = BTreeMap::new();
    for change in differences {
        let summary = kinds.entry(change.kind).or_insert(KindSummary {
            kind: change.kind,
            changed: 0,
            added: 0,
            removed: 0,
        });
        match (&change.before, &change.after) {
            (Some(_), None) => summary.removed += 1,
            (None, _) => summary.added += 1,
            (Some(_), Some(_)) => summary.changed += 1,
        }
    }
    kinds.into_values().collect()
}

/// Compares two bundles, or lock files if their names end in `.yaml`.
///
/// # Errors
/// One of them cannot be read.
pub fn diff(before: &Path, after: &Path) -> Result<Comparison, CommandError> {
    let (before, after) = (
        lock_file::of_bundle_or_file(before)?,
        lock_file::of_bundle_or_file(after)?,
    );
    let changes = differences(&before, &after);
    let had = before.blobs();
    let new = after.blobs().iter();
    let new = new.filter(|(digest, _)| !had.contains_key(digest));
    Ok(Comparison {
        summary: summary(&changes),
        differences: changes,
        new_bytes: new.map(|(_, blob)| blob.size).fold(0, u64::saturating_add),
    })
}
