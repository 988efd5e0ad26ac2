//! What stand-ins of hosts share, for tests of steps.

use std::io::Write;
use std::sync::Mutex;

use async_trait::async_trait;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use kubexm_engine::Command;
use kubexm_engine::Host;
use kubexm_engine::plan::{Ensure, StepContext, StepError, UndoLog};
use kubexm_host::{HostError, Output};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// Keeps no records.
pub(crate) struct NoUndo;

#[async_trait]
impl UndoLog for NoUndo {
    async fn record(&self, _: &str, _: serde_json::Value) -> Result<(), StepError> {
        Ok(())
    }
}

/// Returns the verb and the arguments of a script.
pub(crate) fn words(command: Command) -> Vec<String> {
    command.into_parts().0.split_off(4)
}

/// Returns what a script printed on standard output, with its status.
pub(crate) fn printed(status: i32, text: String) -> Output {
    Output {
        status,
        stdout: text.into_bytes(),
        stderr: Vec::new(),
        log: None,
    }
}

/// Returns objects as the script that gets them prints them.
pub(crate) fn objects(value: &Value) -> Output {
    compressed(&value.to_string())
}

fn refused(status: i32, text: &str) -> Output {
    Output {
        stderr: text.into(),
        ..printed(status, String::new())
    }
}

fn compressed(text: &str) -> Output {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    Output {
        stdout: encoder.finish().unwrap(),
        ..printed(0, String::new())
    }
}

/// What a host without a cluster answers.
pub(crate) const NO_CLUSTER: &str = "the cluster does not exist yet";

/// A host with an API server that has objects. A question begins with the words of an object; a field selector or a namespace of a
/// list does not count. Of objects with the same words, each question but the last has the answer of one. An object that is
/// permitted not to exist is not there; any other question fails.
pub(crate) struct FakeApi {
    name: HostName,
    /// Exit status and text of all answers; `None` if there is an API server.
    refusal: Option<(i32, &'static str)>,
    objects: Mutex<Vec<(&'static str, Value)>>,
    changes: Mutex<Vec<String>>,
}

impl FakeApi {
    pub(crate) fn new(objects: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self {
            name: "node1".parse().unwrap(),
            refusal: None,
            objects: Mutex::new(objects.into_iter().collect()),
            changes: Mutex::default(),
        }
    }

    /// Returns a host whose API server does not answer.
    pub(crate) fn silent() -> Self {
        Self {
            refusal: Some((1, "refused")),
            ..Self::new([])
        }
    }

    /// Returns a host on which no cluster exists.
    pub(crate) fn without_cluster() -> Self {
        Self {
            refusal: Some((66, NO_CLUSTER)),
            ..Self::new([])
        }
    }

    /// Returns the arguments of scripts that change the cluster.
    pub(crate) fn changes(&self) -> Vec<String> {
        std::mem::take(&mut self.changes.lock().unwrap())
    }
}

#[async_trait]
impl Host for FakeApi {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let words = words(command);
        let ["", asked @ ..] = &words.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
            self.changes.lock().unwrap().push(words.join(" "));
            return Ok(printed(0, String::new()));
        };
        if let Some((status, text)) = self.refusal {
            return Ok(refused(status, text));
        }
        let asked = asked.join(" ");
        let mut all = self.objects.lock().unwrap();
        let mut found = (0..all.len()).filter(|at| asked.starts_with(all[*at].0));
        Ok(match (found.next(), found.next()) {
            (Some(first), Some(_)) => objects(&all.remove(first).1),
            (Some(last), None) => objects(&all[last].1),
            _ if asked.ends_with("--ignore-not-found") => compressed(""),
            _ => refused(1, "refused"),
        })
    }
}

/// Applies a step. Returns the error for people.
pub(crate) async fn apply(step: &dyn Ensure, host: &dyn Host) -> Result<(), String> {
    let context = StepContext {
        host,
        undo: &NoUndo,
        events: &Events::silent(),
    };
    let applied = step.apply(&context).await;
    applied.map_err(|error| error.to_string())
}
