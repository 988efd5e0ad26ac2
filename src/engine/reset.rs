//! Reverts the changes that the receipt of a host records, the last change first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use crate::plan::flush::flush_reset;
use crate::plan::{Receipt, Record, StepError, Stop};
use crate::steps::undo::{self, Refusal, Revert, Undo};
use kubexm_host::{Command, Host};
use kubexm_types::event::{Event, Events, StepState};
use kubexm_types::{ClusterId, HostName, Message, WarningKind};

/// What to do about a record that a reset refuses.
const REFUSED: &str = "the host was not changed; compare the record with the host, revert by hand what is right in it, \
                       remove its line from /var/lib/kubexm/receipt.jsonl, and reset again";

/// Why the changes on a host cannot be reverted.
#[derive(Debug, thiserror::Error)]
#[error("{}", Message::from(self))]
pub enum ResetError {
    /// The record has a form that no version up to this one writes.
    Record {
        host: HostName,
        step: String,
        cause: serde_json::Error,
    },
    /// The record asks for something that kubexm does not do.
    Refused {
        host: HostName,
        step: String,
        cause: Refusal,
    },
    /// The host and its records name different clusters. kubexm never writes such records.
    Clusters(HostName, BTreeSet<ClusterId>),
    /// A command failed on the host, or the host was lost.
    Step(HostName, StepError),
}

impl From<&ResetError> for Message {
    fn from(error: &ResetError) -> Self {
        let (host, message) = match error {
            ResetError::Record { host, step, cause } => {
                let what = "this version of kubexm cannot read the record of";
                let text = format!("{what} {step:?} in the receipt: {cause}");
                (host, Self::new(text).hint(REFUSED))
            }
            ResetError::Refused { host, step, cause } => {
                let text = format!("the record of {step:?} in the receipt is refused: {cause}");
                (host, Self::new(text).hint(REFUSED))
            }
            ResetError::Clusters(host, clusters) => {
                let clusters = clusters.iter().map(ToString::to_string);
                let clusters = clusters.collect::<Vec<_>>().join(", ");
                let text =
                    format!("the records in /var/lib/kubexm name several clusters: {clusters}");
                let hint = "find out which program changed the files there";
                (host, Self::new(text).hint(hint))
            }
            ResetError::Step(host, error) => (host, Self::from(error)),
        };
        message.within(host)
    }
}

impl ResetError {
    /// Returns whether the connection to the host failed.
    pub fn is_loss_of_host(&self) -> bool {
        matches!(self, Self::Step(_, StepError::Host(_)))
    }
}

/// The reset of one host, with all of its records read and validated.
pub struct HostReset {
    host: Arc<dyn Host>,
    reverts: Vec<Revert>,
    /// The records of the reverts, for a reset of some steps; `None` for a reset of the host.
    part: Option<Vec<Record>>,
}

/// What a reset did on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reverted {
    /// The number of reverted changes.
    pub changes: usize,
    /// A sentence for everything that stays on the host.
    pub kept: Vec<String>,
    /// Whether all changes were reverted and the receipt was removed.
    pub complete: bool,
}

impl HostReset {
    /// Reads the receipt of a host and validates all of its records. Changes nothing.
    ///
    /// # Errors
    /// The receipt cannot be read, or a record is not one that kubexm writes.
    pub async fn read(host: &Arc<dyn Host>) -> Result<Self, ResetError> {
        Self::select(host, None).await
    }

    /// Reads the records of some steps. The others stay in the receipt, and what they describe on the host.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn read_steps(
        host: &Arc<dyn Host>,
        is_selected: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Self, ResetError> {
        Self::select(host, Some(is_selected)).await
    }

    async fn select(
        host: &Arc<dyn Host>,
        is_selected: Option<&(dyn Fn(&str) -> bool + Sync)>,
    ) -> Result<Self, ResetError> {
        let name = || host.name().clone();
        let records = Receipt::read(host.as_ref()).await;
        let mut records = records.map_err(|error| ResetError::Step(name(), error))?;
        records.retain(|record| is_selected.is_none_or(|selects| selects(&record.step)));
        let part = is_selected.map(|_| records.clone());
        let own = Receipt::cluster(host.as_ref()).await;
        let own = own.map_err(|error| ResetError::Step(name(), error))?;
        let clusters = own.into_iter();
        let clusters: BTreeSet<ClusterId> = clusters
            .chain(records.iter().filter_map(|record| record.cluster))
            .collect();
        if clusters.len() > 1 {
            return Err(ResetError::Clusters(name(), clusters));
        }
        let mut reverts: Vec<Revert> = Vec::new();
        for Record { step, undo, .. } in in_order_of_reset(records) {
            let undo: Undo = serde_json::from_value(undo).map_err(|cause| ResetError::Record {
                host: name(),
                step: step.clone(),
                cause,
            })?;
            let validated = undo.validate().map_err(|cause| ResetError::Refused {
                host: name(),
                step,
                cause,
            })?;
            reverts.extend(validated);
        }
        Ok(Self {
            host: Arc::clone(host),
            reverts: without_repetitions(reverts),
            part,
        })
    }

    /// Returns the host.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// Returns the number of changes to revert.
    pub fn changes(&self) -> usize {
        self.reverts.len()
    }

    /// Returns what each change is, in the order in which the reset reverts them.
    pub fn titles(&self) -> impl Iterator<Item = &str> {
        self.reverts.iter().map(Revert::title)
    }

    /// Reverts all changes on the host and then removes its receipt.
    ///
    /// Stops between two changes when `stop` is cancelled; the receipt then remains for the next run.
    ///
    /// # Errors
    /// A change cannot be reverted.
    pub async fn run(&self, events: &Events, stop: &Stop) -> Result<Reverted, ResetError> {
        let host = &self.host;
        let failed = |error: StepError| ResetError::Step(host.name().clone(), error);
        let mut reverted = Reverted {
            changes: 0,
            kept: Vec::new(),
            complete: false,
        };
        for step in &self.reverts {
            if stop.is_cancelled() {
                return Ok(reverted);
            }
            let kept = revert(host, step, events).await.map_err(failed)?;
            reverted.kept.extend(kept);
            reverted.changes += 1;
        }
        let reload = Command::new("systemctl").arg("daemon-reload");
        let reloaded = host.run(reload).await;
        reloaded.map_err(|error| failed(StepError::Host(error)))?;
        // After a power failure, a change that is not reverted must still have its record.
        flush_reset(host.as_ref()).await.map_err(failed)?;
        let printed = match &self.part {
            None => Receipt::remove(host.as_ref()).await.map_err(failed)?,
            Some(records) => {
                let forgetting = Receipt::forget(host.as_ref(), records).await;
                forgetting.map_err(failed)?;
                String::new()
            }
        };
        // Without this, the record of a cluster that no longer exists could return.
        flush_reset(host.as_ref()).await.map_err(failed)?;
        reverted.kept.extend(printed.lines().filter_map(undo::kept));
        for kept in &reverted.kept {
            events.warn(WarningKind::Kept, format!("{}: {kept}", host.name()));
        }
        reverted.complete = true;
        Ok(reverted)
    }
}

/// Reverts all changes on a host and then removes its receipt. Returns the number of reverted changes.
///
/// # Errors
/// The receipt cannot be read, or a change cannot be reverted.
pub async fn reset_host(
    host: &Arc<dyn Host>,
    events: &Events,
    stop: &Stop,
) -> Result<usize, ResetError> {
    let reset = HostReset::read(host).await?;
    Ok(reset.run(events, stop).await?.changes)
}

/// Leaves out reverts of a change that several steps have recorded, after the first one.
fn without_repetitions(all: Vec<Revert>) -> Vec<Revert> {
    let mut reverts: Vec<Revert> = Vec::new();
    for revert in all {
        let is_known = reverts.iter().any(|known| known.is_same_as(&revert));
        if revert.needs_others() || !is_known {
            reverts.push(revert);
        }
    }
    reverts
}

/// Returns the records in the order in which a reset reverts them: the steps in the reverse order of their first
/// records, and the records of one step from the last to the first.
///
/// A later version of kubexm can have another script that reverts a step, and then appends a second record of this
/// step. Steps that ran after the first one still depend on it: pods are stopped through a container runtime
/// that runs.
fn in_order_of_reset(records: Vec<Record>) -> Vec<Record> {
    let mut first = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        first.entry(record.step.clone()).or_insert(at);
    }
    let mut ordered: Vec<_> = records.into_iter().enumerate().collect();
    ordered.sort_by_key(|(at, record)| Reverse((first.get(&record.step).copied(), *at)));
    ordered.into_iter().map(|(_, record)| record).collect()
}

/// Reverts one change and reports it.
async fn revert(
    host: &Arc<dyn Host>,
    revert: &Revert,
    events: &Events,
) -> Result<Vec<String>, StepError> {
    let began = Instant::now();
    let result = revert.run(host.as_ref()).await;
    events.emit(Event::Step {
        host: host.name().clone(),
        module: "reset".to_owned(),
        task: "undo".to_owned(),
        step: revert.title().to_owned(),
        state: match &result {
            Ok(_) => StepState::Reverted,
            Err(error) => StepState::failed(error.kind(), error),
        },
        elapsed: began.elapsed(),
    });
    result
}

/// Returns the message of an error, with the name of the host. Errors of the connection already contain it.
#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_scripts::undo::PARENTS_REMOVE;

    /// A version that ran etcd as root recorded the first two steps. The user of the later version must not be removed
    /// while the unit runs.
    #[test]
    fn record_of_a_new_step_is_reverted_with_the_step_that_it_names() {
        let record = |step: &str, undo: &str| Record {
            step: step.to_owned(),
            undo: undo.into(),
            cluster: None,
        };
        let records = vec![
            record("folders etcd", "remove the directory"),
            record("unit etcd", "stop the unit"),
            record("folders etcd", "remove the user"),
        ];
        let order = in_order_of_reset(records);
        let order: Vec<_> = order
            .iter()
            .filter_map(|record| record.undo.as_str())
            .collect();
        assert_eq!(
            order,
            ["stop the unit", "remove the user", "remove the directory"]
        );
    }

    /// Two steps look for their directories at the same time, and find that the directory above does not exist.
    #[test]
    fn directory_above_those_of_two_steps_goes_after_both() {
        let record = |step: &str, undo: Undo| Record {
            step: step.to_owned(),
            undo: undo.to_value().unwrap(),
            cluster: None,
        };
        let above = || Undo::run(PARENTS_REMOVE, ["/srv/site"]);
        let directory = |path: &str| Undo::RemoveDirectory {
            path: path.parse().unwrap(),
        };
        let records = vec![
            record("folders kubernetes", above()),
            record("folders kubernetes", directory("/srv/site/etcd")),
            record("folders registry", above()),
            record("folders registry", directory("/srv/site/images")),
        ];
        let records = in_order_of_reset(records).into_iter();
        let undos = records.map(|record| serde_json::from_value::<Undo>(record.undo).unwrap());
        let reverts = undos.flat_map(|undo| undo.validate().unwrap()).collect();
        let reverts = without_repetitions(reverts);
        let last: Vec<&str> = reverts.iter().rev().take(2).map(Revert::title).collect();
        let expected = [above(), directory("/srv/site/etcd")].map(|undo| undo.validate().unwrap());
        let expected: Vec<&str> = expected.iter().map(|one| one[0].title()).collect();
        assert_eq!(last, expected);
    }
}
