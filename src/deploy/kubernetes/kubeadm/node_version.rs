//! The wait for a node whose kubelet has another version.

use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::Host;
use kubexm_engine::plan::{About, Condition, Describe, Step, StepError, Wait};
use kubexm_engine::steps::{LONGEST_REASON, POLL, diagnosis, failed};
use kubexm_types::{HostName, Untrusted, Version};

use crate::journal;
use crate::objects::{Node, Server};

/// How long a kubelet may take until its node is Ready.
const AT_MOST: Duration = Duration::from_secs(300);

/// Waits until a node is Ready, and its kubelet reports a version. The host asks with the credentials of its kubelet, because a
/// worker has no others.
pub(super) struct NodeVersion {
    pub(super) node: HostName,
    pub(super) version: Version,
}

impl Describe for NodeVersion {
    fn id(&self) -> String {
        "wait kubelet version".to_owned()
    }

    fn describe(&self) -> String {
        let Self { node, version } = self;
        format!("Wait until {node} is Ready with version {version}")
    }
}

impl From<NodeVersion> for Step {
    fn from(step: NodeVersion) -> Self {
        Self::Wait(Box::new(step))
    }
}

#[async_trait]
impl Wait for NodeVersion {
    fn limit(&self) -> Duration {
        AT_MOST
    }

    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError> {
        let (server, name) = (Server::of(host).limit(POLL), self.node.as_str());
        let words = ["node", name, "--kubeconfig", "/etc/kubernetes/kubelet.conf"];
        let node: Node = match server.find(&self.describe(), &words).await {
            Ok(found) => found.unwrap_or_default(),
            Err(error) => return failed(error),
        };
        if node.ready() == "True" && node.kubelet().as_ref() == Some(&self.version) {
            return Ok(Condition::Met);
        }
        let version = &node.status.node_info.kubelet_version;
        let message = node.condition("Ready").map(|ready| ready.message.as_str());
        let state = format!(
            "{name} has version {version}: {}",
            message.unwrap_or_default()
        );
        let state = Untrusted::one_line(&state, LONGEST_REASON);
        Ok(Condition::Unmet(state.to_string()))
    }

    fn about(&self) -> About {
        About::OwnKubelet
    }

    async fn diagnose(&self, host: &dyn Host) -> Result<String, StepError> {
        diagnosis(host, &journal("kubelet", 10)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::FakeApi;
    use serde_json::json;

    #[tokio::test]
    async fn node_must_be_ready_with_the_new_version() {
        let wait = NodeVersion {
            node: "node1".parse().unwrap(),
            version: "1.36.3".parse().unwrap(),
        };
        let poll = async |version: &str, ready: &str| {
            let ready = json!({"type": "Ready", "status": ready, "message": "the runtime is down"});
            let status = json!({"nodeInfo": {"kubeletVersion": version}, "conditions": [ready]});
            let host = FakeApi::new([("node node1 --kubeconfig", json!({"status": status}))]);
            wait.poll(&host).await.unwrap()
        };
        assert_eq!(poll("v1.36.3", "True").await, Condition::Met);
        let unmet = |version| {
            let text = format!("node1 has version {version}: the runtime is down");
            Condition::Unmet(text)
        };
        assert_eq!(poll("v1.36.3", "False").await, unmet("v1.36.3"));
        assert_eq!(poll("v1.35.4", "True").await, unmet("v1.35.4"));
        let refused = Condition::Unmet("refused".to_owned());
        assert_eq!(wait.poll(&FakeApi::silent()).await.unwrap(), refused);
    }
}
