//! What the next install makes of an application.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kubexm_config::cluster::Application;
use kubexm_engine::Host;
use kubexm_engine::plan::StepError;
use serde_json::Value;

use super::chart::{Chart, ChartContent};
use super::installed::{Revision, compared};
use super::release::Release;
use super::stored::{StoredRelease, stored};
use super::{content, values_of};
use crate::objects::Server;
use crate::{DeployError, Inputs, Secrets};

/// An application as the cluster file and the bundle have it.
pub struct PlannedApplication<'a> {
    pub application: &'a Application,
    pub chart: ChartContent,
    /// Values for the templates. They may have secrets.
    pub values: Value,
    /// The values without those of encrypted files and without `secretValues`.
    plain: Value,
    release: Release,
}

impl<'a> PlannedApplication<'a> {
    /// Returns what the bundle and the cluster file make of an application.
    ///
    /// # Errors
    /// The bundle does not have a part of it, or a file with values cannot be read.
    pub fn of(inputs: &Inputs<'_>, application: &'a Application) -> Result<Self, DeployError> {
        let parts = content(inputs.lock, application).map_err(DeployError::Incomplete)?;
        let chart = Chart::of(inputs, application, &parts)?;
        let values = values_of(application, Secrets::Read)?;
        Ok(Self {
            application,
            release: Release::new(application, &chart, values.to_string()),
            chart: chart.content,
            plain: values_of(application, Secrets::LeftOut)?,
            values,
        })
    }

    /// Returns why the next install changes the release, and the revision with which Helm compares it; `None` if the release is as
    /// the cluster file says.
    ///
    /// # Errors
    /// The API server does not answer, or the revision cannot be read.
    pub async fn difference(
        &self,
        host: &dyn Host,
    ) -> Result<Option<(String, Option<StoredRelease>)>, StepError> {
        let revisions = self.release.revisions(host).await?;
        let newest = revisions.iter().max_by_key(|one| one.number());
        let Some(reason) = self.release.difference(newest) else {
            return Ok(None);
        };
        let compared = match compared(&revisions) {
            Some(revision) => Some(self.stored(host, revision).await?),
            None => None,
        };
        Ok(Some((reason, compared)))
    }

    async fn stored(
        &self,
        host: &dyn Host,
        revision: &Revision,
    ) -> Result<StoredRelease, StepError> {
        let namespace = self.application.namespace.as_str();
        stored(Server::of(host), namespace, &revision.secret).await
    }

    /// Returns the texts of values that are secret, those that a revision has in their place, and how a Secret encodes both.
    pub fn secrets(&self, stored: Option<&StoredRelease>) -> BTreeSet<String> {
        let former = stored.map_or(&Value::Null, |stored| &stored.values);
        secrets(&self.values, &self.plain, former)
    }
}

/// Returns the texts of values that differ from those without secrets, of the former values in their place, and of former values
/// that have gone, which may have been secret. It has their base64, and the longer lines of texts.
pub(super) fn secrets(all: &Value, plain: &Value, former: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(all, plain, former, &mut found);
    let encoded = found.iter().map(|text| BASE64_STANDARD.encode(text));
    let lines = found.iter().flat_map(|text| text.lines());
    let lines = lines.map(|line| line.trim().to_owned());
    let more: Vec<String> = encoded
        .chain(lines.filter(|line| line.len() >= LONG_LINE))
        .collect();
    found.extend(more);
    found
}

/// A line of a text with several ones is a secret of its own from this length: templates indent and escape lines.
const LONG_LINE: usize = 8;

fn collect(all: &Value, plain: &Value, former: &Value, found: &mut BTreeSet<String>) {
    match (all, plain) {
        (Value::Object(all), Value::Object(plain)) => {
            for (name, value) in all {
                let plain = plain.get(name).unwrap_or(&Value::Null);
                collect(value, plain, &former[name], found);
            }
            let former = former.as_object().into_iter().flatten();
            let gone = former.filter(|(name, _)| !all.contains_key(*name));
            gone.for_each(|(_, value)| texts(value, found));
        }
        _ if all == plain => {}
        _ => {
            texts(all, found);
            texts(former, found);
        }
    }
}

fn texts(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if !text.trim().is_empty() => {
            found.insert(text.trim().to_owned());
            found.insert(text.clone());
        }
        Value::Number(number) => {
            found.insert(number.to_string());
        }
        Value::Array(values) => values.iter().for_each(|one| texts(one, found)),
        Value::Object(fields) => fields.values().for_each(|one| texts(one, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secret_values_and_their_predecessors_are_secret() {
        let all = json!({"a": {"b": "sesame", "c": 1}, "d": ["first line\nend\n"], "e": "plain", "f": {"g": 4711}});
        let plain = json!({"a": {"b": "hidden", "c": 1}, "e": "plain"});
        let former = json!({"a": {"b": "old", "c": 2}, "e": "other", "gone": "former"});
        let found = secrets(&all, &plain, &former);
        for text in [
            "sesame",
            "old",
            "former",
            "4711",
            "first line",
            "first line\nend",
            "first line\nend\n",
        ] {
            assert!(found.contains(text), "{text}");
            assert!(
                found.contains(&BASE64_STANDARD.encode(text)) || text == "first line",
                "{text}"
            );
        }
        for text in ["plain", "other", "1", "2", "end"] {
            assert!(!found.contains(text), "{text}");
        }
    }
}
