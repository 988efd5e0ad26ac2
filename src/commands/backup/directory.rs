//! The backups in a directory of this machine.

use std::path::{Path, PathBuf};

use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::{CommandError, FileError};

/// The end of the name of each backup: a tar archive, compressed by zstd, encrypted by age.
const SUFFIX: &str = ".tar.zst.age";
/// The length of a time, as in `20260131T093000Z`.
const TIME: usize = 16;

/// A backup in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredBackup {
    pub path: PathBuf,
    /// The name of the cluster.
    pub cluster: String,
    /// When the backup began, as in `2026-01-31T09:30:00Z`.
    pub created: String,
    /// The size in bytes.
    pub size: u64,
}

/// Returns the path of a backup that begins now.
///
/// # Errors
/// The time cannot be formatted.
pub(super) fn path_for_now(folder: &Path, cluster: &str) -> Result<PathBuf, CommandError> {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let now = OffsetDateTime::now_utc().format(format);
    let now = now.map_err(CommandError::configuration)?;
    Ok(folder.join(format!("{cluster}-{now}{SUFFIX}")))
}

/// Parses the name of a file. Returns cluster and time.
fn parse(name: &str) -> Option<(String, String)> {
    let rest = name.strip_suffix(SUFFIX)?;
    let at = rest.len().checked_sub(TIME + 1)?;
    let (cluster, time) = rest.split_at_checked(at)?;
    let time = time.strip_prefix('-')?;
    let is_valid = time.bytes().enumerate().all(|(at, byte)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    });
    if cluster.is_empty() || !is_valid {
        return None;
    }
    let part = |from: usize, to: usize| time.get(from..to).unwrap_or_default();
    let created = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(9, 11),
        part(11, 13),
        part(13, 15)
    );
    Some((cluster.to_owned(), created))
}

/// Returns the backups of a directory, the newest first; of one cluster, or of all.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn stored(
    folder: &Path,
    cluster: Option<&str>,
) -> Result<Vec<StoredBackup>, CommandError> {
    let failed = |error| FileError::io("list the backups in", folder, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let about = entry.metadata().map_err(failed)?;
        let name = entry.file_name();
        let parsed = name.to_str().and_then(parse);
        let Some((of, created)) = parsed.filter(|_| about.is_file()) else {
            continue;
        };
        if cluster.is_none_or(|cluster| cluster == of) {
            found.push(StoredBackup {
                path: entry.path(),
                cluster: of,
                created,
                size: about.len(),
            });
        }
    }
    found.sort_by(|a, b| (&b.created, &a.path).cmp(&(&a.created, &b.path)));
    Ok(found)
}

/// Returns the backups of a cluster that are too old if `keep` stay. The present one is the newest of these, and need not exist
/// yet.
///
/// A backup with a later time than the present one does not count, and stays: the clock was wrong at one of the two times.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn superseded(
    present: &Path,
    cluster: &str,
    keep: usize,
) -> Result<Vec<PathBuf>, CommandError> {
    let folder = present.parent().unwrap_or(Path::new("."));
    let name = present.file_name().and_then(|name| name.to_str());
    let now = name.and_then(parse).map(|(_, created)| created);
    let all = stored(folder, Some(cluster))?.into_iter();
    let former = all.filter(|backup| Some(&backup.created) < now.as_ref());
    let superseded = former.skip(keep.saturating_sub(1));
    Ok(superseded.map(|backup| backup.path).collect())
}

/// Removes the oldest backups of a cluster after the present one was written, so that `keep` remain. Returns the paths of those
/// that were removed.
///
/// # Errors
/// The directory cannot be read, or a file cannot be removed.
pub(super) fn keep(
    present: &Path,
    cluster: &str,
    keep: usize,
) -> Result<Vec<PathBuf>, CommandError> {
    let superseded = superseded(present, cluster, keep)?;
    for old in &superseded {
        std::fs::remove_file(old)
            .map_err(|error| FileError::io("remove the old backup", old, &error))?;
    }
    Ok(superseded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_backups_of_the_same_cluster_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "a-20260101T000000Z.tar.zst.age",
            "a-20260103T000000Z.tar.zst.age",
            "a-20260102T000000Z.tar.zst.age",
            "a-b-20260101T000000Z.tar.zst.age",
            "a-20260101T000000Z.tar.zst",
            "a-2026.tar.zst.age",
            "notes",
        ];
        for name in names {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let present = folder.path().join(names[1]);
        let coming = folder.path().join("a-20260104T000000Z.tar.zst.age");
        let old = superseded(&coming, "a", 2).unwrap();
        assert_eq!(old, [2, 0].map(|at| folder.path().join(names[at])));
        assert_eq!(stored(folder.path(), Some("a")).unwrap().len(), 3);
        let removed = keep(&present, "a", 2).unwrap();
        assert_eq!(removed, [folder.path().join(names[0])]);
        assert!(keep(&present, "a", 2).unwrap().is_empty());
        // The clock was wrong when the one of January 3 was written.
        let present = folder.path().join(names[2]);
        assert!(keep(&present, "a", 1).unwrap().is_empty());
        let left = stored(folder.path(), Some("a")).unwrap();
        let times: Vec<&str> = left.iter().map(|backup| backup.created.as_str()).collect();
        assert_eq!(times, ["2026-01-03T00:00:00Z", "2026-01-02T00:00:00Z"]);
        assert_eq!(stored(folder.path(), None).unwrap().len(), 3);
        let path = path_for_now(folder.path(), "x").unwrap();
        std::fs::write(path, "").unwrap();
        assert_eq!(stored(folder.path(), Some("x")).unwrap().len(), 1);
        stored(&folder.path().join("missing"), None).unwrap_err();
    }
}
