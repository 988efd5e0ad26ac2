//! Events, by which controllers report what they cannot do.

use std::collections::BTreeMap;

use serde::Deserialize;
use time::OffsetDateTime;

use super::Metadata;

/// The arguments of `kubectl get` for events of controllers in a namespace. Most events are about pods.
pub const OF_CONTROLLERS: [&str; 3] = ["events", "--field-selector", "involvedObject.kind!=Pod"];

/// Reasons of events of a controller that cannot create something, or of a Job that failed.
const FAILURES: [&str; 6] = [
    "FailedCreate",
    "FailedDaemonPod",
    "FailedBinding",
    "ProvisioningFailed",
    "BackoffLimitExceeded",
    "DeadlineExceeded",
];
/// Reasons of events of a controller that has created it.
const SUCCESSES: [&str; 2] = ["SuccessfulCreate", "ProvisioningSucceeded"];

/// An event.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Event {
    metadata: Metadata,
    /// The object that it is about.
    pub involved_object: EventObject,
    pub reason: String,
    pub message: String,
    #[serde(with = "time::serde::rfc3339::option")]
    last_timestamp: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    event_time: Option<OffsetDateTime>,
    series: EventSeries,
}

/// The object of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct EventObject {
    pub kind: String,
    /// Empty for an object of the whole cluster.
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventSeries {
    #[serde(with = "time::serde::rfc3339::option")]
    last_observed_time: Option<OffsetDateTime>,
}

impl Event {
    /// Returns when it happened last.
    pub(crate) fn time(&self) -> Option<OffsetDateTime> {
        let times = [
            self.series.last_observed_time,
            self.last_timestamp,
            self.event_time,
            self.metadata.creation_timestamp,
        ];
        times.into_iter().flatten().max()
    }
}

/// Returns the last event of each object whose controller failed, the newest first. A controller that has created something since
/// does not count.
pub fn failures(events: Vec<Event>) -> Vec<Event> {
    let mut last: BTreeMap<EventObject, Event> = BTreeMap::new();
    let reasons = FAILURES.iter().chain(&SUCCESSES);
    let counts = |event: &Event| reasons.clone().any(|reason| *reason == event.reason);
    for event in events.into_iter().filter(counts) {
        let object = event.involved_object.clone();
        let is_older = |known: &Event| known.time() <= event.time();
        if last.get(&object).is_none_or(is_older) {
            last.insert(object, event);
        }
    }
    let has_failed = |event: &Event| FAILURES.contains(&event.reason.as_str());
    let mut failed: Vec<Event> = last.into_values().filter(has_failed).collect();
    failed.sort_by_key(|event| std::cmp::Reverse(event.time()));
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(kind: &str, name: &str, reason: &str, seconds: u8) -> Value {
        json!({
            "involvedObject": {"kind": kind, "namespace": "one", "name": name},
            "reason": reason, "message": format!("{reason} of {name}"), "type": "Warning",
            "eventTime": null, "lastTimestamp": format!("2026-01-02T03:00:{seconds:02}Z"),
        })
    }

    #[test]
    fn controller_that_has_recovered_does_not_count() {
        let events = json!([
            event("ReplicaSet", "web-1", "FailedCreate", 5),
            event("ReplicaSet", "web-1", "SuccessfulCreate", 4),
            event("ReplicaSet", "api-1", "SuccessfulCreate", 9),
            event("ReplicaSet", "api-1", "FailedCreate", 8),
            event("PersistentVolumeClaim", "data", "ProvisioningFailed", 7),
            event("Deployment", "web", "ScalingReplicaSet", 9),
        ]);
        let failed = failures(serde_json::from_value(events).unwrap());
        let names: Vec<&str> = failed.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(
            names,
            ["ProvisioningFailed of data", "FailedCreate of web-1"]
        );
    }
}
