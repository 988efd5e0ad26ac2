//! The backups in a directory of this machine.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;

use kubexm_session::{CommandError, FileError};
use kubexm_types::{ClusterId, ClusterIdentity, UtcTime};

/// The end of the name of each backup: a tar archive, compressed by zstd, encrypted by age.
pub(super) const SUFFIX: &str = ".tar.zst.age";
/// What precedes it in the name of a backup that takes the place of no older one.
const INCOMPLETE: &str = ".incomplete";
/// The length of a time, as in `20260131T093000Z`.
const TIME: usize = 16;
/// The number of digits of the cluster ID in a name.
const DIGITS: usize = 8;

/// A backup in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredBackup {
    pub path: PathBuf,
    /// The name of the cluster.
    pub cluster: String,
    /// The first 8 hexadecimal digits of the cluster ID; `None` for a backup of an earlier version, whose name does not have them.
    pub cluster_id: Option<String>,
    /// When the backup began.
    pub created: UtcTime,
    /// The size in bytes.
    pub size: u64,
    /// Whether something is missing, so that it takes the place of no older one.
    pub is_incomplete: bool,
}

/// A backup that begins now.
pub(super) struct NewBackup<'a> {
    folder: &'a Path,
    cluster: &'a ClusterIdentity,
    /// As in `20260131T093000Z`.
    time: String,
}

impl<'a> NewBackup<'a> {
    /// Returns the backup of a cluster that begins now.
    ///
    /// # Errors
    /// The time cannot be formatted.
    pub(super) fn begin(
        folder: &'a Path,
        cluster: &'a ClusterIdentity,
    ) -> Result<Self, CommandError> {
        let format = format_description!("[year][month][day]T[hour][minute][second]Z");
        let time = OffsetDateTime::now_utc().format(format);
        Ok(Self {
            folder,
            cluster,
            time: time.map_err(CommandError::defect)?,
        })
    }

    /// Returns the path of the backup. The time precedes the ID, so that the names of a cluster are in the order of time.
    pub(super) fn path(&self, is_complete: bool) -> PathBuf {
        let (name, time, id) = (&self.cluster.name, &self.time, digits(self.cluster.id));
        let state = if is_complete { "" } else { INCOMPLETE };
        self.folder
            .join(format!("{name}-{time}-{id}{state}{SUFFIX}"))
    }

    /// Returns the backups of the cluster that this one makes superfluous, if `keep` of its kind stay with it. Only a complete one
    /// removes complete ones. Of the incomplete ones, as many stay.
    ///
    /// Another cluster can have the same name, and its backups in the same directory. Only backups with the ID of this one
    /// count. A backup with a later time does not count, and stays: the clock was wrong at one of the two times.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(super) fn superseded(
        &self,
        keep: usize,
        is_complete: bool,
    ) -> Result<Vec<PathBuf>, CommandError> {
        let (own, now) = (digits(self.cluster.id), created(&self.time));
        let all = stored(self.folder, Some(self.cluster.name.as_str()))?.into_iter();
        let former = all.filter(|backup| {
            backup.cluster_id.as_ref() == Some(&own) && Some(&backup.created) < now.as_ref()
        });
        let (incomplete, complete): (Vec<_>, Vec<_>) =
            former.partition(|backup| backup.is_incomplete);
        let others = keep.saturating_sub(1);
        let (complete_ones, incomplete_ones) = if is_complete {
            (others, keep)
        } else {
            (complete.len(), others)
        };
        let complete = complete.into_iter().skip(complete_ones);
        let superseded = complete.chain(incomplete.into_iter().skip(incomplete_ones));
        Ok(superseded.map(|backup| backup.path).collect())
    }

    /// Removes superfluous backups after this one was written. Returns the paths of those that were removed.
    ///
    /// # Errors
    /// The directory cannot be read, or a file cannot be removed.
    pub(super) fn keep(
        &self,
        keep: usize,
        is_complete: bool,
    ) -> Result<Vec<PathBuf>, CommandError> {
        let superseded = self.superseded(keep, is_complete)?;
        for old in &superseded {
            std::fs::remove_file(old)
                .map_err(|error| FileError::io("remove the old backup", old, &error))?;
        }
        Ok(superseded)
    }
}

/// Returns the digits of an ID that are in names.
fn digits(id: ClusterId) -> String {
    id.to_string().chars().take(DIGITS).collect()
}

/// What the name of a backup states.
struct Name {
    cluster: String,
    cluster_id: Option<String>,
    created: UtcTime,
    is_incomplete: bool,
}

/// Parses the name of a file: `NAME-TIME-ID`, or `NAME-TIME` of earlier versions.
fn parse(name: &str) -> Option<Name> {
    let rest = name.strip_suffix(SUFFIX)?;
    let (rest, is_incomplete) = match rest.strip_suffix(INCOMPLETE) {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    // A time ends with a Z, and an ID does not. So the last part of a cluster name is never read as an ID.
    let (rest, cluster_id) = match rest.rsplit_once('-') {
        Some((rest, id)) if is_id(id) => (rest, Some(id.to_owned())),
        _ => (rest, None),
    };
    let (cluster, time) = rest.rsplit_once('-')?;
    let created = created(time)?;
    (!cluster.is_empty()).then(|| Name {
        cluster: cluster.to_owned(),
        cluster_id,
        created,
        is_incomplete,
    })
}

fn is_id(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == DIGITS && text.bytes().all(is_digit)
}

/// Returns the time of a name.
fn created(time: &str) -> Option<UtcTime> {
    let is_valid = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    if time.len() != TIME || !time.bytes().enumerate().all(is_valid) {
        return None;
    }
    let part = |from: usize, to: usize| time.get(from..to).unwrap_or_default();
    let text = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(9, 11),
        part(11, 13),
        part(13, 15)
    );
    UtcTime::parse(&text).ok()
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
    let entries = std::fs::read_dir(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => failed(error).hint(
            "give the directory of -o of `kubexm backup create`: by default it is `backups` in the state directory",
        ),
        _ => failed(error),
    })?;
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let about = entry.metadata().map_err(failed)?;
        let name = entry.file_name();
        let parsed = name.to_str().and_then(parse);
        let Some(name) = parsed.filter(|_| about.is_file()) else {
            continue;
        };
        if cluster.is_none_or(|cluster| cluster == name.cluster) {
            found.push(StoredBackup {
                path: entry.path(),
                cluster: name.cluster,
                cluster_id: name.cluster_id,
                created: name.created,
                size: about.len(),
                is_incomplete: name.is_incomplete,
            });
        }
    }
    found.sort_by(|a, b| (&b.created, &a.path).cmp(&(&a.created, &b.path)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_that_does_not_exist_has_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [folder.path().join("nodir"), file] {
            let refused = stored(&path, None).unwrap_err().to_string();
            let expected = format!("cannot list the backups in {}: ", path.display());
            assert!(refused.starts_with(&expected), "{refused}");
            assert!(refused.contains("\nhint: give the directory"), "{refused}");
        }
    }

    fn identity(id: &str) -> ClusterIdentity {
        let id = format!("{id}-93a5-4cc7-8d83-3f3f6f0f9b11");
        let text = format!(r#"{{"id": "{id}", "name": "a", "created": "2026-01-01T00:00:00Z"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    /// Creates files `NAME.tar.zst.age`.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(folder.path().join(format!("{name}{SUFFIX}")), "x").unwrap();
        }
        folder
    }

    /// The backup of a day of January.
    fn new<'a>(folder: &'a Path, cluster: &'a ClusterIdentity, day: u8) -> NewBackup<'a> {
        let time = format!("202601{day:02}T000000Z");
        NewBackup {
            folder,
            cluster,
            time,
        }
    }

    fn names(paths: &[PathBuf]) -> Vec<&str> {
        let names = paths.iter().map(|path| path.file_name().unwrap().to_str());
        let names = names.map(|name| name.unwrap().strip_suffix(SUFFIX).unwrap());
        names.collect()
    }

    #[test]
    fn oldest_backups_of_a_cluster_are_removed() {
        let files = [
            "a-20260101T000000Z-0b7c4c4e",
            "a-20260103T000000Z-0b7c4c4e",
            "a-20260102T000000Z-0b7c4c4e",
            "a-b-20260101T000000Z-0b7c4c4e",
            "a-2026",
            "notes",
        ];
        let (folder, cluster) = (folder(&files), identity("0b7c4c4e"));
        let coming = new(folder.path(), &cluster, 4);
        assert_eq!(
            names(&coming.superseded(2, true).unwrap()),
            [files[2], files[0]]
        );
        assert_eq!(stored(folder.path(), Some("a")).unwrap().len(), 3);
        let present = new(folder.path(), &cluster, 3);
        assert_eq!(names(&present.keep(2, true).unwrap()), [files[0]]);
        assert!(present.keep(2, true).unwrap().is_empty());
        // The clock was wrong when the one of January 3 was written.
        assert!(
            new(folder.path(), &cluster, 2)
                .keep(1, true)
                .unwrap()
                .is_empty()
        );
        let left = stored(folder.path(), Some("a")).unwrap();
        let times: Vec<String> = left
            .iter()
            .map(|backup| backup.created.to_string())
            .collect();
        assert_eq!(times, ["2026-01-03T00:00:00Z", "2026-01-02T00:00:00Z"]);
        assert_eq!(stored(folder.path(), None).unwrap().len(), 3);
        stored(&folder.path().join("missing"), None).unwrap_err();
    }

    /// A new cluster, or one of another site, can have the same name. Earlier versions wrote names without an ID.
    #[test]
    fn backups_of_another_cluster_with_the_same_name_neither_count_nor_go() {
        let files = [
            "a-20260101T000000Z",
            "a-20260101T000000Z-ffffffff",
            "a-20260101T000000Z-ffffffff.incomplete",
            "a-20260102T000000Z-0b7c4c4e",
            "a-20260103T000000Z-ffffffff",
            "a-20260104T000000Z",
        ];
        let (folder, cluster) = (folder(&files), identity("0b7c4c4e"));
        let present = new(folder.path(), &cluster, 5);
        assert!(present.superseded(2, true).unwrap().is_empty());
        assert_eq!(names(&present.keep(1, true).unwrap()), [files[3]]);
        assert_eq!(stored(folder.path(), Some("a")).unwrap().len(), 5);
    }

    /// The first complete backup removed all good ones.
    #[test]
    fn incomplete_backups_do_not_count_as_good_ones() {
        let files = [
            "a-20260101T000000Z-0b7c4c4e.incomplete",
            "a-20260102T000000Z-0b7c4c4e",
            "a-20260103T000000Z-0b7c4c4e",
            "a-20260104T000000Z-0b7c4c4e.incomplete",
            "a-20260105T000000Z-0b7c4c4e.incomplete",
        ];
        let (folder, cluster) = (folder(&files), identity("0b7c4c4e"));
        let present = new(folder.path(), &cluster, 6);
        assert_eq!(names(&present.superseded(3, true).unwrap()), [""; 0]);
        assert_eq!(names(&present.keep(2, true).unwrap()), [files[1], files[0]]);
        let left = stored(folder.path(), Some("a")).unwrap();
        let left: Vec<bool> = left.iter().map(|backup| backup.is_incomplete).collect();
        assert_eq!(left, [true, true, false]);
        // An incomplete one removes no complete one.
        let present = new(folder.path(), &cluster, 7);
        assert_eq!(names(&present.keep(2, false).unwrap()), [files[3]]);
    }

    #[test]
    fn names_of_all_versions_are_read() {
        let read = |name: &str| {
            let found = parse(&format!("{name}{SUFFIX}"))?;
            assert_eq!(found.created.to_string(), "2026-01-31T09:30:00Z");
            Some((found.cluster, found.cluster_id, found.is_incomplete))
        };
        let found = |cluster: &str, id: Option<&str>, is_incomplete| {
            Some((cluster.to_owned(), id.map(str::to_owned), is_incomplete))
        };
        for cluster in ["a", "a-b", "a-deadbeef", "deadbeef"] {
            let old = format!("{cluster}-20260131T093000Z");
            assert_eq!(read(&old), found(cluster, None, false));
            let new = format!("{old}-0b7c4c4e");
            assert_eq!(read(&new), found(cluster, Some("0b7c4c4e"), false));
            let incomplete = read(&format!("{new}.incomplete"));
            assert_eq!(incomplete, found(cluster, Some("0b7c4c4e"), true));
        }
        for wrong in ["-20260131T093000Z", "a-20260131T093000", "a-0b7c4c4e", "a"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let cluster = identity("0b7c4c4e");
        let new = NewBackup::begin(Path::new("/srv"), &cluster).unwrap();
        for is_complete in [true, false] {
            let path = new.path(is_complete);
            let name = parse(path.file_name().unwrap().to_str().unwrap()).unwrap();
            assert_eq!(name.cluster_id.as_deref(), Some("0b7c4c4e"));
            assert_eq!(
                (name.cluster.as_str(), name.is_incomplete),
                ("a", !is_complete)
            );
        }
    }
}
