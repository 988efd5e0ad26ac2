//! Objects of the cluster, as `kubectl get -o json` prints them, with the fields that kubexm reads.

mod classes;
pub(crate) mod event;
mod images;
mod node;
mod pod;
mod request;
mod services;
mod storage;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use kubexm_engine::plan::{Check, StepError};
use kubexm_engine::{Command, Host, Limit};
use kubexm_scripts::Script;
use kubexm_scripts::kubernetes::{DELETE, GET, PATCH, ROLLOUT};
use kubexm_types::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

pub use classes::Class;
pub use event::{Event, EventObject};
pub use images::Images;
pub use node::{Node, NodeAddress, NodeInfo, NodeSpec, NodeStatus, RuntimeHandler, Taint};
pub use pod::{
    Budget, BudgetStatus, ContainerState, ContainerStatus, Halt, Pod, PodSpec, PodStatus,
};
pub use request::{Request, RequestSpec, sign};
pub use services::{EndpointSlice, Service, Webhook};
pub use storage::{
    Attachment, AttachmentSource, AttachmentSpec, PersistentVolume, PersistentVolumeSpec,
};

/// The exit status of a question on a host without a cluster.
const NO_CLUSTER: i32 = 66;
/// The largest answer, because a hostile host must not exhaust memory.
const LARGEST: u64 = 1 << 30;

/// Prints of each object of a list its name, its namespace and when it was created: the values of Secrets do not leave the host.
pub const METADATA: &str = r#"go-template={"items":[{{range $at, $one := .items}}{{if $at}},{{end}}{"metadata":{"namespace":"{{.metadata.namespace}}","name":"{{.metadata.name}}","creationTimestamp":"{{.metadata.creationTimestamp}}"}}{{end}}]}"#;

/// How often an API server is asked that has just started and refuses requests.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_secs(3);
/// Time between two polls.
const PAUSE: Duration = Duration::from_secs(2);

/// An API server, and how kubexm asks it.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    host: &'a dyn Host,
    url: &'a str,
    limit: Limit,
    tries: u32,
}

impl<'a> Server<'a> {
    /// Returns the API server that a host with a control plane asks: that of `admin.conf`.
    pub fn of(host: &'a dyn Host) -> Self {
        Self {
            host,
            url: "",
            limit: Limit::CHANGE,
            tries: 1,
        }
    }

    /// Returns the host that asks it.
    pub(crate) fn host(self) -> &'a dyn Host {
        self.host
    }

    /// Returns the API server with this URL, which the host asks.
    #[must_use]
    pub fn at(self, url: &'a str) -> Self {
        Self { url, ..self }
    }

    /// Sets how long an answer may take.
    #[must_use]
    pub fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// Asks again for at most a minute if the API server refuses, as one does that has just started.
    #[must_use]
    pub fn patiently(self) -> Self {
        Self {
            tries: TRIES,
            ..self
        }
    }

    /// Returns the objects of a list. `words` are the arguments of `kubectl get`, and `what` is the action for errors. With
    /// `-o go-template=…`, a template prints the JSON.
    ///
    /// # Errors
    /// The API server does not answer, or the answer is empty or has another form.
    pub async fn list<T: DeserializeOwned>(
        self,
        what: &str,
        words: &[&str],
    ) -> Result<Vec<T>, StepError> {
        let list = self.find::<List<T>>(what, words).await?;
        let list = list.ok_or_else(|| {
            let said = format!("{what}: the answer of kubectl is empty");
            StepError::Other(said.into())
        })?;
        Ok(list.items)
    }

    /// Returns an object, or `None` with `--ignore-not-found` for one that does not exist.
    ///
    /// # Errors
    /// The API server does not answer, the object does not exist, or the answer has another form.
    pub async fn find<T: DeserializeOwned>(
        self,
        what: &str,
        words: &[&str],
    ) -> Result<Option<T>, StepError> {
        let mut tries = 1;
        loop {
            match self.ask(what, words).await {
                Err(StepError::Command { .. }) if tries < self.tries => {
                    tries += 1;
                    sleep(BETWEEN_TRIES).await;
                }
                ended => return ended,
            }
        }
    }

    async fn ask<T: DeserializeOwned>(
        self,
        what: &str,
        words: &[&str],
    ) -> Result<Option<T>, StepError> {
        let words = std::iter::once(self.url).chain(words.iter().copied());
        let command = Command::from_script(GET, words).describe(what);
        // Pods can have secrets in their environment.
        let command = command.limit(self.limit).secret_output();
        let mut output = self.host.run(command).await?;
        if !output.success() {
            // The error must not quote compressed bytes.
            output.stdout.clear();
        }
        let output = StepError::unless_done(what, output)?;
        parse(&output.stdout).map_err(|error| {
            let said = format!("{what}: the answer of kubectl is invalid: {error}");
            StepError::Other(Message::quoting(said))
        })
    }
}

/// Returns a check that asked an API server. Before the cluster exists, its step is needed.
///
/// # Errors
/// The API server does not answer: the state is unknown.
pub(crate) fn checked(found: Result<Check, StepError>) -> Result<Check, StepError> {
    match found {
        Err(StepError::Command {
            status: NO_CLUSTER,
            complaint,
            ..
        }) => Ok(Check::needed(complaint.to_string())),
        found => found,
    }
}

/// Deletes objects. `words` are the arguments of `kubectl delete`. Asks for at most a minute.
///
/// # Errors
/// The API server refuses.
pub async fn delete(
    host: &dyn Host,
    what: &str,
    words: impl IntoIterator<Item = String>,
) -> Result<(), StepError> {
    change(host, DELETE, what, words).await
}

/// Changes fields of an object. `words` are the arguments of `kubectl patch`.
///
/// # Errors
/// The API server refuses.
pub(crate) async fn patch(
    host: &dyn Host,
    what: &str,
    words: &[&str],
    fields: &serde_json::Value,
) -> Result<(), StepError> {
    let fields = fields.to_string();
    let words = words.iter().copied().chain(["--patch", &fields]);
    change(host, PATCH, what, words).await
}

/// Lets the pods of a workload start again, one after another. `words` name it for `kubectl rollout restart`. Does not wait.
///
/// # Errors
/// The API server refuses.
pub async fn restart(host: &dyn Host, what: &str, words: &[&str]) -> Result<(), StepError> {
    let words = ["restart"].into_iter().chain(words.iter().copied());
    change(host, ROLLOUT, what, words).await
}

async fn change(
    host: &dyn Host,
    script: Script,
    what: &str,
    words: impl IntoIterator<Item = impl Into<String>>,
) -> Result<(), StepError> {
    let command = Command::from_script(script, words).describe(what);
    let output = host.run(command.limit(Limit::CHANGE)).await?;
    StepError::unless_done(what, output).map(drop)
}

/// Polls every two seconds, for a time.
pub(crate) struct Polls {
    end: Instant,
}

impl Polls {
    pub(crate) fn at_most(time: Duration) -> Self {
        let end = Instant::now() + time;
        Self { end }
    }

    /// Returns false if an answer states that nothing is missing, and otherwise true after a pause. An API server may refuse.
    ///
    /// # Errors
    /// The time is over: what is missing. Or the host was lost.
    pub(crate) async fn go_on(
        &self,
        missing: Result<Option<Message>, StepError>,
    ) -> Result<bool, StepError> {
        let reason = match missing {
            Ok(None) => return Ok(false),
            Ok(Some(message)) => StepError::Other(message),
            Err(error @ StepError::Command { .. }) => error,
            Err(error) => return Err(error),
        };
        if Instant::now() >= self.end {
            return Err(reason);
        }
        sleep(PAUSE).await;
        Ok(true)
    }
}

/// Parses compressed JSON; `None` if it is empty.
fn parse<T: DeserializeOwned>(compressed: &[u8]) -> Result<Option<T>, serde_json::Error> {
    let mut json = BufReader::new(MultiGzDecoder::new(compressed).take(LARGEST));
    if json.fill_buf().map_err(serde_json::Error::io)?.is_empty() {
        return Ok(None);
    }
    serde_json::from_reader(json).map(Some)
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// The metadata of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    pub name: String,
    /// Empty for an object of the whole cluster.
    pub namespace: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner_references: Vec<Owner>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub creation_timestamp: Option<OffsetDateTime>,
    /// The time at which it ends or ended; `None` before its deletion.
    #[serde(with = "time::serde::rfc3339::option")]
    pub deletion_timestamp: Option<OffsetDateTime>,
}

impl Metadata {
    /// Returns `NAMESPACE/NAME`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns `KIND/NAME` of its owner: of the one that creates it again, or of the first one.
    pub fn owner(&self) -> Option<String> {
        let mut owners = self.owner_references.iter();
        let owner = owners.find(|owner| owner.controller);
        let owner = owner.or_else(|| self.owner_references.first());
        owner.map(|owner| format!("{}/{}", owner.kind, owner.name))
    }
}

/// An object because of which another one exists.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Owner {
    pub kind: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub uid: String,
    /// Whether it creates the object again.
    #[serde(default)]
    pub controller: bool,
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
pub struct Object {
    pub metadata: Metadata,
}

/// A ConfigMap.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    pub metadata: Metadata,
    pub data: BTreeMap<String, String>,
}

/// A condition in the status of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
    pub message: String,
    /// When the status became another one.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_transition_time: Option<OffsetDateTime>,
}

/// Returns the condition of a kind.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::FakeApi;
    use serde_json::json;

    /// A list without an answer must not look as if there were no objects.
    #[tokio::test(start_paused = true)]
    async fn only_a_complete_answer_is_a_list() {
        let host = FakeApi::new([
            ("nodes", json!({"items": []})),
            ("pods", json!({"items": 1})),
        ]);
        let server = Server::of(&host);
        let list = async |words: &[&str]| server.list::<Node>("look", words).await;
        assert!(list(&["nodes"]).await.unwrap().is_empty());
        let empty = list(&["jobs", "--ignore-not-found"]).await.unwrap_err();
        assert_eq!(empty.to_string(), "look: the answer of kubectl is empty");
        assert!(list(&["pods"]).await.is_err());
        let refused = server.patiently().list::<Node>("look", &["jobs"]).await;
        assert!(matches!(refused, Err(StepError::Command { .. })));
        assert!(parse::<Node>(b"").is_err());
        let whole = crate::fake_host::objects(&json!({"items": []})).stdout;
        assert!(parse::<List<Node>>(&whole[..whole.len() - 9]).is_err());
    }
}
