//! `node replace`.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::remove::{self, RemoveOptions};
use super::text::Purpose;
use super::{check_names, joined};
use crate::install::{self, InstallOptions};
use crate::{CommandError, FileError, Stop};
use kubexm_types::event::Events;
use kubexm_types::{HostName, write_atomic};

/// What a replacement did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplaceReport {
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
}

/// A replacement that has begun. One that was interrupted continues with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReplacementRecord {
    names: Vec<HostName>,
    /// Whether the former hosts are out of the cluster.
    removed: bool,
}

/// The file in the state directory.
pub(crate) const FILE: &str = "replacement.json";

/// Replaces hosts by new ones with the same names and addresses: removes the former ones from the cluster, and adds the new
/// ones. A host that still works is reset, and joins again.
///
/// # Errors
/// As a removal and an install.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn replace(
    options: &RemoveOptions,
    confirm: impl AsyncFn() -> bool,
    events: &Events,
    stop: &Stop,
) -> Result<ReplaceReport, CommandError> {
    let cluster = kubexm_config::load_cluster(&options.source.cluster)?;
    check_names(&cluster, &options.names, "name hosts of the cluster file")?;
    let state = options.connection.state_directory(&cluster, events)?;
    let begun = ReplacementRecord::load(&state)?;
    if let Some(begun) = &begun
        && !begun.is_of(&options.names)
    {
        let names = joined(&begun.names);
        return Err(CommandError::Configuration(format!(
            "the replacement of {names} has begun and is not complete\nhint: complete it first: kubexm node replace {}",
            names.replace(',', "")
        )));
    }
    let mut changed = 0;
    if begun.is_none_or(|begun| !begun.removed) {
        let report = remove::run(options, Purpose::Replace, confirm, events, stop).await?;
        let Some(removed) = report.changed else {
            return Ok(ReplaceReport { changed: None });
        };
        changed += removed;
        let record = ReplacementRecord {
            names: options.names.clone(),
            removed: true,
        };
        record.save(&state)?;
    } else {
        events.note(format!(
            "continues the replacement of {}: the former host is out of the cluster",
            joined(&options.names)
        ));
        if options.dry_run {
            events.note("dry run: nothing was touched");
            return Ok(ReplaceReport { changed: None });
        }
    }
    let install = InstallOptions {
        source: options.source.clone(),
        connection: options.connection.clone(),
        unsigned: options.unsigned,
        allow_failed: false,
        allow_older: options.allow_older,
        ca_encryption: options.ca_encryption.clone(),
        admitted: Some(options.names.iter().cloned().collect()),
    };
    let report = install::install(&install, events, stop).await?;
    ReplacementRecord::remove(&state)?;
    Ok(ReplaceReport {
        changed: Some(changed + report.changed),
    })
}

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
    match names.any(|name| record.names.contains(name)) {
        true => ReplacementRecord::remove(state),
        false => Ok(()),
    }
}

impl ReplacementRecord {
    fn is_of(&self, names: &[HostName]) -> bool {
        let set = |names: &[HostName]| -> BTreeSet<HostName> { names.iter().cloned().collect() };
        set(&self.names) == set(names)
    }

    fn load(state: &Path) -> Result<Option<Self>, CommandError> {
        let path = state.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| FileError::io("read", &path, &error))?,
        };
        let parsed = serde_json::from_str(&text);
        Ok(Some(parsed.map_err(|error| {
            FileError::new("read", &path, error)
                .hint("remove the file; kubexm node replace then begins again")
        })?))
    }

    fn save(&self, state: &Path) -> Result<(), CommandError> {
        let path = state.join(FILE);
        let text = serde_json::to_vec(self).map_err(CommandError::configuration)?;
        let saved = write_atomic(&path, &text, 0o600);
        Ok(saved.map_err(|error| FileError::io("write", &path, &error))?)
    }

    fn remove(state: &Path) -> Result<(), CommandError> {
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
