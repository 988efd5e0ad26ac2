//! `bundle diff`: the differences between two bundles or locks.

use std::path::Path;

use serde::Serialize;

use crate::{CommandError, lock_file};
use kubexm_bundle::lock::difference::{self, differences};

/// The differences between two bundles or locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The differences, by name.
    pub differences: Vec<Change>,
    /// The size in bytes of the blobs that only the second bundle contains.
    pub new_bytes: u64,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What differs: a component, an image, a package.
    pub name: String,
    /// The version or digest in the first bundle; `None` if only the second contains it.
    pub before: Option<String>,
    /// The version or digest in the second bundle; `None` if only the first contains it.
    pub after: Option<String>,
}

impl From<difference::Difference> for Change {
    fn from(difference: difference::Difference) -> Self {
        use difference::Difference as D;
        let (name, before, after) = match difference {
            D::Added { name, is } => (name, None, Some(is)),
            D::Removed { name, was } => (name, Some(was), None),
            D::Changed { name, was, is } => (name, Some(was), Some(is)),
        };
        Self {
            name,
            before,
            after,
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.name;
        match (&self.before, &self.after) {
            (None, Some(after)) => write!(f, "+ {name} {after}"),
            (Some(before), None) => write!(f, "- {name} {before}"),
            (Some(before), Some(after)) => write!(f, "~ {name} {before} -> {after}"),
            (None, None) => write!(f, "  {name}"),
        }
    }
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
        differences: changes.into_iter().map(Change::from).collect(),
        new_bytes: new.map(|(_, blob)| blob.size).sum(),
    })
}
