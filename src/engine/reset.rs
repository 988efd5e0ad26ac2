//! Reverts the changes that the receipt of a host records, the last change first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use crate::plan::{Receipt, Record, StepError, Stop};
use crate::steps::Undo;
use kubexm_host::{Command, Host};
use kubexm_types::event::{Event, Events, StepState};
use kubexm_types::{ClusterId, HostName};

/// Why the changes on a host cannot be reverted.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// Another version of kubexm wrote the record.
    #[error("{0}: this version of kubexm cannot read a record of the receipt: {1}")]
    Record(HostName, serde_json::Error),
    /// The host and its records name different clusters. kubexm never writes such records.
    #[error(
        "{0}: the records in /var/lib/kubexm name several clusters: {clusters}\nhint: find out which program \
         changed the files there",
        clusters = .1.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Clusters(HostName, BTreeSet<ClusterId>),
    /// A command failed on the host, or the host was lost.
    #[error("{}", with_host(.0, .1))]
    Step(HostName, StepError),
}

impl ResetError {
    /// Returns whether the connection to the host failed.
    pub fn is_loss_of_host(&self) -> bool {
        matches!(self, Self::Step(_, StepError::Host(_)))
    }
}

/// Reverts all changes on a host and then removes its receipt. Returns the number of reverted changes.
///
/// Stops between two changes when `stop` is cancelled; the receipt then remains for the next run.
///
/// # Errors
/// The receipt cannot be read, or a change cannot be reverted.
pub async fn reset_host(
    host: &Arc<dyn Host>,
    events: &Events,
    stop: &Stop,
) -> Result<usize, ResetError> {
    let failed = |error: StepError| ResetError::Step(host.name().clone(), error);
    let records = Receipt::read(host.as_ref()).await.map_err(failed)?;
    let own = Receipt::cluster(host.as_ref()).await.map_err(failed)?;
    let clusters = own.into_iter();
    let clusters: BTreeSet<ClusterId> = clusters
        .chain(records.iter().filter_map(|record| record.cluster))
        .collect();
    if clusters.len() > 1 {
        return Err(ResetError::Clusters(host.name().clone(), clusters));
    }
    let mut reverted = 0;
    let mut seen = BTreeSet::new();
    for record in in_order_of_reset(records) {
        if stop.is_cancelled() {
            return Ok(reverted);
        }
        let undo: Undo = serde_json::from_value(record.undo.clone())
            .map_err(|error| ResetError::Record(host.name().clone(), error))?;
        if !seen.insert(record.undo.to_string()) {
            continue;
        }
        revert(host, &undo, events).await.map_err(failed)?;
        reverted += 1;
    }
    let reload = Command::new("systemctl").arg("daemon-reload");
    let reloaded = host.run(reload).await;
    reloaded.map_err(|error| failed(StepError::Host(error)))?;
    Receipt::remove(host.as_ref()).await.map_err(failed)?;
    Ok(reverted)
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
async fn revert(host: &Arc<dyn Host>, undo: &Undo, events: &Events) -> Result<(), StepError> {
    let began = Instant::now();
    let result = undo.revert(host.as_ref()).await;
    events.emit(Event::Step {
        host: host.name().clone(),
        module: "reset".to_owned(),
        task: "undo".to_owned(),
        step: undo.title(),
        state: match &result {
            Ok(()) => StepState::Reverted,
            Err(error) => StepState::Failed(error.to_string()),
        },
        elapsed: began.elapsed(),
    });
    result
}

/// Returns the message of an error, with the name of the host. Errors of the connection already contain it.
fn with_host(host: &HostName, error: &StepError) -> String {
    match error {
        StepError::Host(error) => error.to_string(),
        other => format!("{host}: {other}"),
    }
}
