//! Calls of kubectl about a node, on a host with a control plane.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::options::Drain;
use crate::objects::{Node, Server};
use kubexm_engine::plan::StepError;
use kubexm_engine::{Command, Host, Limit};
use kubexm_scripts::kubernetes::DRAIN;
use kubexm_types::Message;

/// The time between two looks at what a step waits for.
pub(super) const PAUSE: Duration = Duration::from_secs(2);
/// How long another pod of CoreDNS may take to be ready, and volumes to be detached.
pub(super) const AT_MOST: Duration = Duration::from_secs(120);

/// A node, and a host that asks the cluster about it.
pub(super) struct Kubectl<'a> {
    pub(super) host: &'a dyn Host,
    pub(super) node: &'a str,
    /// What the step does, for errors.
    pub(super) action: &'a str,
}

impl Kubectl<'_> {
    pub(super) async fn call(
        &self,
        verb: &'static str,
        words: &[&str],
    ) -> Result<String, StepError> {
        let command = Command::from_script(DRAIN.verb(verb), words.iter().copied());
        let command = command.describe(self.action).limit(Limit::CHANGE);
        let output = self.host.run(command).await?;
        Ok(StepError::unless_done(self.action, output)?.text())
    }

    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        words: &[&str],
    ) -> Result<Vec<T>, StepError> {
        Server::of(self.host).list(self.action, words).await
    }

    /// Returns the node if the cluster has it.
    async fn find(&self) -> Result<Option<Node>, StepError> {
        let words = ["node", self.node, "--ignore-not-found"];
        let server = Server::of(self.host).patiently();
        server.find(self.action, &words).await
    }

    /// Returns the node if the API server answers now.
    pub(super) async fn node_now(&self) -> Result<Option<Node>, StepError> {
        let server = Server::of(self.host);
        let found = server.find(self.action, &["node", self.node]).await;
        unless_refused(found).map(Option::flatten)
    }

    pub(super) async fn node(&self) -> Result<Node, StepError> {
        self.find().await?.ok_or_else(|| {
            let said = format!("{}: the cluster has no node {}", self.action, self.node);
            StepError::Other(said.into())
        })
    }

    /// Returns whether the cluster has the node.
    pub(super) async fn is_there(&self) -> Result<bool, StepError> {
        Ok(self.find().await?.is_some())
    }

    pub(super) async fn cordon(&self) -> Result<(), StepError> {
        if !self.node().await?.spec.unschedulable {
            self.call("cordon", &[self.node]).await?;
        }
        Ok(())
    }

    /// Lets the scheduler use the node again after a failure, and returns the error.
    pub(super) async fn give_up(&self, mut said: String, hint: String) -> StepError {
        if self.call("uncordon", &[self.node]).await.is_ok() {
            said += &format!("\nthe scheduler may use {} again", self.node);
        }
        StepError::Other(Message::quoting(said).hint(hint))
    }

    pub(super) async fn drain(&self, drain: Drain, more: Option<&str>) -> Result<(), StepError> {
        self.cordon().await?;
        self.keep_dns().await?;
        self.evict(drain, more).await
    }
}

/// Returns an error only if the host is lost: the caller asks an API server again that refuses.
pub(super) fn unless_refused<T>(result: Result<T, StepError>) -> Result<Option<T>, StepError> {
    match result {
        Err(error) if error.is_loss_of_host() => Err(error),
        other => Ok(other.ok()),
    }
}
