//! What has begun, as control planes record it: another state directory, or an older copy of this one, must not undo it.
//!
//! A command keeps its record in the state directory. No command of kubexm reaches a control plane before the host has all records of
//! the state directory, with a serial number that grows with each change: see [`HostLocks::guard`]. After a run has the
//! locks, [`agree`] compares both.
//!
//! [`HostLocks::guard`]: kubexm_engine::cluster::HostLocks::guard

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Begun, Operation, Records, Standing, StateRecord, UpgradeRecord};
use crate::CommandError;
use crate::state_record::read_text;
use kubexm_config::Cluster;
use kubexm_engine::cluster::{BegunRecord, ClusterRecord, Documents, Holder};
use kubexm_types::event::Events;
use kubexm_types::{ClusterId, HostName, Message, Untrusted, WarningKind};

/// What a user does about an unreadable record of a host.
pub(super) const HINT: &str = "if nothing has begun, remove /var/lib/kubexm/begun.json there";
/// All records of a state directory, as its control planes have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    /// The cluster; `None` if the state directory does not know it yet.
    cluster: Option<ClusterId>,
    /// The number of changes, also by other state directories.
    serial: u64,
    /// The command that changed a record last.
    holder: Holder,
    /// The records by the names of their files. A damaged one is null.
    records: BTreeMap<String, Value>,
}

impl StateRecord for Document {
    const FILE: &'static str = "begun.json";
    const TITLE: &'static str = "the copy of what control planes record";
    const HINT: &'static str = "remove the file; kubexm reads it from the control planes";
}

/// Compares what control planes record with the state directory. Returns what they have to record during the command.
///
/// # Errors
/// The command must wait for another one that has begun with another state directory, or this state directory is older than the
/// cluster.
pub fn agree(
    operation: Operation,
    cluster: &Cluster,
    state: &Path,
    on_hosts: &Documents,
    holder: Holder,
    events: &Events,
) -> Result<BegunRecord, CommandError> {
    let nothing: BegunRecord = Arc::new(|| Ok(None));
    // A reset ends what has begun. It needs no record that can be read.
    if operation == Operation::Reset {
        return Ok(nothing);
    }
    let both = Both::read(cluster, state, on_hosts)?;
    if !both.permit(operation, events)? {
        return Ok(nothing);
    }
    let base = both.newest.as_ref().map_or(0, |(_, newest)| newest.serial);
    let copy = Copy {
        state: state.to_owned(),
        cluster: both.id,
        holder,
        base,
        document: Mutex::new(both.shared()),
    };
    Ok(Arc::new(move || copy.line()))
}

/// Returns what has begun on the hosts with another state directory.
///
/// # Errors
/// A record cannot be read.
pub fn elsewhere(
    cluster: &Cluster,
    state: &Path,
    on_hosts: &Documents,
) -> Result<Vec<Standing>, CommandError> {
    let both = Both::read(cluster, state, on_hosts)?;
    let Some((host, newest)) = both.unknown() else {
        return Ok(Vec::new());
    };
    if let Some(standing) = both.older(host, newest) {
        return Ok(vec![standing]);
    }
    let standing = both.begun(host, newest)?.into_iter();
    Ok(standing.map(|(_, standing)| standing).collect())
}

/// A state directory, and the newest record of its control planes.
struct Both<'a> {
    cluster: &'a Cluster,
    state: &'a Path,
    id: Option<ClusterId>,
    /// What the state directory has copied to control planes.
    own: Option<Document>,
    /// The present records of the state directory.
    records: BTreeMap<String, Value>,
    newest: Option<(HostName, Document)>,
}

impl<'a> Both<'a> {
    fn read(
        cluster: &'a Cluster,
        state: &'a Path,
        on_hosts: &Documents,
    ) -> Result<Self, CommandError> {
        let record = ClusterRecord::read(state).ok().flatten();
        Ok(Self {
            cluster,
            state,
            id: record.map(|record| record.identity().id),
            own: Document::read(state)?,
            records: records(state)?,
            newest: newest(cluster, on_hosts)?,
        })
    }

    /// Returns the newest record, if it is one of this cluster and not older than this state directory. Commands compare the
    /// clusters of hosts and state directory themselves.
    fn newest(&self) -> Option<(&HostName, &Document)> {
        let before = self.own.as_ref().map_or(0, |own| own.serial);
        let (host, newest) = self.newest.as_ref()?;
        let is_of = self.id.is_some() && newest.cluster == self.id && newest.serial >= before;
        is_of.then_some((host, newest))
    }

    /// Returns the newest record, if this state directory does not know it.
    fn unknown(&self) -> Option<(&HostName, &Document)> {
        let own = self.own.as_ref().map(|own| &own.records);
        self.newest().filter(|(_, newest)| {
            newest.records != self.records && own.is_none_or(|own| *own != newest.records)
        })
    }

    /// Returns what control planes and state directory have in common. After a copy of the state directory has gone on, this one
    /// counts from there.
    fn shared(&self) -> Option<Document> {
        let newest = self.newest().map(|(_, newest)| newest);
        let newest = newest.filter(|newest| newest.records == self.records);
        newest.or(self.own.as_ref()).cloned()
    }

    /// Returns that this state directory has records of before; `None` if it has none.
    fn older(&self, host: &HostName, newest: &Document) -> Option<Standing> {
        let names: Vec<&str> = self.records.keys().map(String::as_str).collect();
        let first = names.first()?;
        Some(Standing {
            what: format!(
                "the state directory {} is older than the cluster: {} has changed {first} since, by the record of {host}",
                self.state.display(),
                newest.holder,
            ),
            hint: format!(
                "use that state directory; if it is lost, remove {} from this one: kubexm then goes by the record of {host}",
                names.join(", ")
            ),
        })
    }

    /// Returns what has begun by the record of a host.
    fn begun(
        &self,
        host: &HostName,
        newest: &Document,
    ) -> Result<Vec<(Begun, Standing)>, CommandError> {
        let mut all = Vec::new();
        for begun in Begun::ALL.iter().copied().filter(|begun| begun.is_shared()) {
            let records = Records::Host(host, &newest.records);
            let Some(standing) = begun.standing_except(None, self.cluster, &records)? else {
                continue;
            };
            let what = format!(
                "{}; it is of {}, and {} has no record of it",
                Untrusted::one_line(&standing.what, 300),
                newest.holder,
                self.state.display()
            );
            let hint = "go on with that state directory; if it is lost, restore a backup with kubexm backup restore, or remove the \
                        cluster with kubexm reset"
                .to_owned();
            all.push((begun, Standing { what, hint }));
        }
        Ok(all)
    }

    /// Fails if the command must not run. Returns whether the records of this state directory are those of the cluster from now on;
    /// otherwise the command runs beside one of another state directory.
    fn permit(&self, operation: Operation, events: &Events) -> Result<bool, CommandError> {
        let Some((host, newest)) = self.unknown() else {
            return Ok(true);
        };
        if let Some(standing) = self.older(host, newest) {
            return Err(standing.refuses(operation));
        }
        let records = Records::Host(host, &newest.records);
        let all = self.begun(host, newest)?;
        for (begun, standing) in &all {
            if self.takes_over(operation, *begun, &records)? {
                let what = &standing.what;
                let text = format!("this command takes the place of another one: {what}");
                events.warn(WarningKind::StateDirectory, Message::new(text));
                return Ok(true);
            }
            let refusal = begun.refusal_of(operation, self.cluster, &records)?;
            if begun.is_continued_by(operation) || refusal.is_some() {
                return Err(standing.refuses(operation));
            }
        }
        Ok(all.is_empty())
    }

    /// Returns whether the command can do without the record of what has begun: a restore replaces everything, and an upgrade to the
    /// same version goes on where the hosts are.
    fn takes_over(
        &self,
        operation: Operation,
        begun: Begun,
        records: &Records<'_>,
    ) -> Result<bool, CommandError> {
        Ok(match (operation, begun) {
            (Operation::BackupRestore, _) => true,
            (Operation::Upgrade, Begun::Upgrade) => {
                let record = records.read::<UpgradeRecord>()?;
                record.is_some_and(|record| record.check(&self.cluster.kubernetes.version).is_ok())
            }
            _ => false,
        })
    }
}

/// Returns the newest record of the control planes. Other hosts do not decide which commands may run.
fn newest(
    cluster: &Cluster,
    on_hosts: &Documents,
) -> Result<Option<(HostName, Document)>, CommandError> {
    let mut newest: Option<(HostName, Document)> = None;
    for name in &cluster.roles.control_plane {
        let Some(line) = on_hosts.get(name) else {
            continue;
        };
        let document: Document = serde_json::from_str(line).map_err(|error| {
            let text =
                format!("cannot read what {name} records of commands that have begun: {error}");
            CommandError::host(text).hint(HINT)
        })?;
        if newest
            .as_ref()
            .is_none_or(|(_, other)| other.serial < document.serial)
        {
            newest = Some((name.clone(), document));
        }
    }
    Ok(newest)
}

/// The records of a state directory, copied to control planes.
struct Copy {
    state: PathBuf,
    cluster: Option<ClusterId>,
    holder: Holder,
    /// The serial number that control planes have at the beginning.
    base: u64,
    /// What the state directory has of it.
    document: Mutex<Option<Document>>,
}

impl Copy {
    /// Returns what control planes have to record now. Numbers and saves it, if a record has changed.
    fn line(&self) -> io::Result<Option<Arc<str>>> {
        let records = records(&self.state).map_err(|error| io::Error::other(error.to_string()))?;
        let mut document = self.document.lock().unwrap_or_else(PoisonError::into_inner);
        let before = document.as_ref().map_or(0, |document| document.serial);
        let is_same = match &*document {
            Some(document) => document.records == records,
            None => records.is_empty(),
        };
        if is_same && before < self.base {
            return Ok(None);
        }
        if !is_same {
            let next = Document {
                cluster: self.cluster,
                serial: before.max(self.base).saturating_add(1),
                holder: self.holder.clone(),
                records,
            };
            next.save(&self.state)
                .map_err(|error| io::Error::other(error.to_string()))?;
            *document = Some(next);
        }
        let line = document.as_ref().map(serde_json::to_string).transpose()?;
        Ok(line.map(Into::into))
    }
}

/// Returns the records of a state directory.
fn records(state: &Path) -> Result<BTreeMap<String, Value>, CommandError> {
    let mut records = BTreeMap::new();
    for begun in Begun::ALL.iter().filter(|begun| begun.is_shared()) {
        let file = begun.file();
        if let Some(text) = read_text(&state.join(file))? {
            let record = serde_json::from_str(&text).unwrap_or(Value::Null);
            records.insert(file.to_owned(), record);
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests;
