//! Moves the pods of a node to others before its programs change, or before it leaves the cluster, and lets the scheduler use it
//! again. A node that an administrator has cordoned stays cordoned.

mod dns;
mod evictions;
mod kubectl;
mod options;
mod volumes;

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use kubectl::{Kubectl, PAUSE, unless_refused};
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_engine::{Command, Host};
use kubexm_scripts::kubernetes::DRAIN;
use kubexm_types::{HostName, Message};

use crate::objects::Node;

pub use options::Drain;

/// How long a node may take until it is Ready.
const RETURN: Duration = Duration::from_secs(300);

/// Why the pods of a node move.
pub(crate) enum Reason {
    /// Its programs change.
    Change {
        /// The version of its kubelet after the change.
        version: String,
        /// The beginning of the runtime that the node reports after the change; `None` for any.
        runtime: Option<String>,
    },
    /// It leaves the cluster.
    Departure,
}

/// Moves the pods of a node to others.
pub(crate) struct DrainNode {
    pub(crate) node: HostName,
    pub(crate) drain: Drain,
    pub(crate) reason: Reason,
}

/// Lets the scheduler use a node again.
pub(crate) struct ReturnNode {
    pub(crate) node: HostName,
    /// The version of its kubelet.
    pub(crate) version: String,
}

impl DrainNode {
    fn kubectl<'a>(&'a self, host: &'a dyn Host, action: &'a str) -> Kubectl<'a> {
        Kubectl {
            host,
            node: self.node.as_str(),
            action,
        }
    }

    /// Moves the pods, and waits until their volumes are detached. A node that leaves may not keep any.
    async fn depart(&self, kubectl: &Kubectl<'_>) -> Result<(), StepError> {
        let node = kubectl.node().await?;
        let is_ready = node.ready() == "True";
        let more = (!is_ready).then_some("--skip-wait-for-delete-timeout=1");
        kubectl.drain(self.drain, more).await?;
        // A kubelet that has ended detaches nothing, and one that is not ready may. The reset of the host and the end of its node do.
        if node.ready() == "Unknown" {
            return Ok(());
        }
        let left = match kubectl.detached().await {
            Err(error) if is_ready => return Err(error),
            left => left.unwrap_or_default(),
        };
        if left.is_empty() || !is_ready {
            return Ok(());
        }
        let said = format!(
            "volumes are still attached to {}: {}",
            self.node,
            left.join(" ")
        );
        let hint =
            "read the log of the CSI driver of these volumes, then run the same command again";
        Err(StepError::Other(Message::quoting(said).hint(hint)))
    }
}

impl Describe for DrainNode {
    fn id(&self) -> String {
        match self.reason {
            Reason::Change { .. } => format!("drain {}", self.node),
            Reason::Departure => format!("leave {}", self.node),
        }
    }

    fn describe(&self) -> String {
        format!("Move the pods of {} to other nodes", self.node)
    }
}

#[async_trait]
impl Ensure for DrainNode {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let action = format!("check: {}", self.describe());
        let kubectl = self.kubectl(host, &action);
        let Reason::Change { version, runtime } = &self.reason else {
            return Ok(if kubectl.is_there().await? {
                Check::needed("the cluster has the node")
            } else {
                Check::Satisfied
            });
        };
        let found = kubectl.node().await?.status.node_info;
        if found.kubelet_version != format!("v{version}") {
            let said = format!("its kubelet has the version {}", found.kubelet_version);
            return Ok(Check::needed(said));
        }
        let is_of = |runtime: &String| {
            let rest = found
                .container_runtime_version
                .strip_prefix(runtime.as_str());
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        if runtime.as_ref().is_none_or(is_of) {
            return Ok(Check::Satisfied);
        }
        let said = format!("its pods run with {}", found.container_runtime_version);
        Ok(Check::needed(said))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let action = self.describe();
        let kubectl = self.kubectl(context.host, &action);
        if let Reason::Departure = self.reason {
            return self.depart(&kubectl).await;
        }
        kubectl.drain(self.drain, None).await?;
        unless_refused(kubectl.detached().await).map(drop)
    }
}

impl From<DrainNode> for Step {
    fn from(step: DrainNode) -> Self {
        Self::Ensure(Box::new(step))
    }
}

impl Describe for ReturnNode {
    fn id(&self) -> String {
        format!("return {}", self.node)
    }

    fn describe(&self) -> String {
        format!("Let the scheduler use {} again", self.node)
    }
}

#[async_trait]
impl Ensure for ReturnNode {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let command = Command::from_script(DRAIN.verb("cordoned"), [self.node.as_str()]);
        let action = format!("check: {}", self.describe());
        let output = host.run(command.describe(action)).await?;
        Ok(if output.success() {
            Check::needed(format!("kubexm has cordoned {}", self.node))
        } else {
            Check::Satisfied
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let action = self.describe();
        let kubectl = Kubectl {
            host: context.host,
            node: self.node.as_str(),
            action: &action,
        };
        let deadline = Instant::now() + RETURN;
        let expected = format!("v{}", self.version);
        loop {
            let node = kubectl.node_now().await?;
            let is_back = |node: &Node| {
                node.ready() == "True" && node.status.node_info.kubelet_version == expected
            };
            if node.as_ref().is_some_and(is_back) {
                return kubectl.call("uncordon", &[kubectl.node]).await.map(drop);
            }
            if Instant::now() >= deadline {
                let (node, version) = (&self.node, &self.version);
                let said = format!("{node} is not Ready with a kubelet of version {version}");
                let hint = format!(
                    "read journalctl -u kubelet on {node}, then run the same command again"
                );
                return Err(StepError::Other(Message::new(said).hint(hint)));
            }
            sleep(PAUSE).await;
        }
    }
}

impl From<ReturnNode> for Step {
    fn from(step: ReturnNode) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[cfg(test)]
mod tests;
