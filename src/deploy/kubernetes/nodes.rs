//! Waits for nodes, as the API server sees them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use async_trait::async_trait;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::Host;
use kubexm_engine::plan::{Condition, Describe, Step, StepError, Wait};
use kubexm_engine::steps::{LONGEST_REASON, POLL, diagnosis, failed};
use kubexm_scripts::kubernetes::NODES_DIAGNOSIS;
use kubexm_types::{HostName, Untrusted};

use crate::journal;
use crate::objects::{Node, Server};

/// What a node must have.
#[derive(Clone, Copy)]
enum Goal {
    Registered,
    Ready,
    PodSubnet,
}

/// Waits until all of the nodes have what they must have.
pub(crate) struct NodesWait {
    goal: Goal,
    nodes: Vec<HostName>,
    at_most: Duration,
}

impl NodesWait {
    /// Returns a wait until the nodes are in the cluster.
    pub(crate) fn registered(nodes: &[&HostSpec]) -> Self {
        Self::new(Goal::Registered, nodes, Duration::from_secs(120))
    }

    /// Returns a wait until the nodes are Ready.
    pub(crate) fn ready(nodes: &[&HostSpec], at_most: Duration) -> Self {
        Self::new(Goal::Ready, nodes, at_most)
    }

    /// Returns a wait until the controller manager has assigned a pod subnet to each node.
    pub(crate) fn pod_subnet(nodes: &[&HostSpec]) -> Self {
        Self::new(Goal::PodSubnet, nodes, Duration::from_secs(60))
    }

    fn new(goal: Goal, nodes: &[&HostSpec], at_most: Duration) -> Self {
        Self {
            goal,
            nodes: nodes.iter().map(|host| host.name.clone()).collect(),
            at_most,
        }
    }

    fn condition(&self, found: &[Node]) -> Condition {
        let mut missing = String::new();
        let mut hosts = BTreeMap::new();
        for name in &self.nodes {
            let node = found
                .iter()
                .find(|node| node.metadata.name == name.as_str());
            if let Some(reason) = self.goal.missing(node) {
                let reason = Untrusted::one_line(&reason, LONGEST_REASON).to_string();
                let _ = writeln!(missing, "{name} {reason}");
                hosts.insert(name.clone(), reason);
            }
        }
        if hosts.is_empty() {
            Condition::Met
        } else {
            let missing = missing.trim_end().to_owned();
            Condition::UnmetBy { missing, hosts }
        }
    }
}

impl Goal {
    /// Returns what a node does not have yet; `None` if it has everything.
    fn missing(self, node: Option<&Node>) -> Option<String> {
        let Some(node) = node else {
            return Some("has not registered".to_owned());
        };
        match self {
            Self::Ready if node.ready() != "True" => {
                let message = node.condition("Ready").map(|ready| ready.message.as_str());
                Some(format!("is not Ready: {}", message.unwrap_or_default()))
            }
            Self::PodSubnet if node.spec.pod_cidrs.is_empty() => {
                let needs = "the controller manager needs --allocate-node-cidrs";
                Some(format!("has no pod subnet ({needs})"))
            }
            Self::Registered | Self::Ready | Self::PodSubnet => None,
        }
    }
}

impl Describe for NodesWait {
    fn id(&self) -> String {
        format!("wait {}", self.describe())
    }

    fn describe(&self) -> String {
        let what = match self.goal {
            Goal::Registered => "has registered",
            Goal::Ready => "is Ready",
            Goal::PodSubnet => "has a pod subnet",
        };
        format!("Wait until every node {what}")
    }
}

impl From<NodesWait> for Step {
    fn from(step: NodesWait) -> Self {
        Self::Wait(Box::new(step))
    }
}

#[async_trait]
impl Wait for NodesWait {
    fn limit(&self) -> Duration {
        self.at_most
    }

    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError> {
        let server = Server::of(host).limit(POLL);
        match server.list(&self.describe(), &["nodes"]).await {
            Ok(found) => Ok(self.condition(&found)),
            Err(error) => failed(error),
        }
    }

    async fn diagnose(&self, host: &dyn Host) -> Result<String, StepError> {
        let call = match self.goal {
            Goal::Registered => journal("kubelet", 20),
            Goal::Ready | Goal::PodSubnet => NODES_DIAGNOSIS.into(),
        };
        diagnosis(host, &call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::FakeApi;
    use serde_json::{Value, json};

    fn node(name: &str, ready: &str, message: &str, subnets: &[&str]) -> Value {
        let condition = json!({"type": "Ready", "status": ready, "message": message});
        json!({
            "metadata": {"name": name},
            "spec": {"podCIDRs": subnets},
            "status": {"conditions": [condition]},
        })
    }

    async fn missing(goal: Goal, names: &[&str]) -> String {
        let nodes = [
            node(
                "node1",
                "True",
                "kubelet is posting ready status",
                &["10.244.0.0/24"],
            ),
            node("node2", "False", "cni plugin not initialized", &[]),
            node("node4", "Unknown", "Kubelet stopped posting", &[]),
        ];
        let host = FakeApi::new([("nodes", json!({"items": nodes}))]);
        let wait = NodesWait {
            goal,
            nodes: names.iter().map(|name| name.parse().unwrap()).collect(),
            at_most: Duration::from_secs(1),
        };
        match wait.poll(&host).await.unwrap() {
            Condition::Met => String::new(),
            Condition::UnmetBy { missing, hosts } => {
                assert_eq!(hosts.len(), missing.lines().count());
                missing
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn every_node_that_is_not_ready_is_named_with_the_reason() {
        let names = ["node1", "node2", "node3", "node4"];
        let expected = "node2 is not Ready: cni plugin not initialized\nnode3 has not registered\n\
                        node4 is not Ready: Kubelet stopped posting";
        assert_eq!(missing(Goal::Ready, &names).await, expected);
        assert_eq!(missing(Goal::Ready, &["node1"]).await, "");
        let expected = "node3 has not registered";
        assert_eq!(missing(Goal::Registered, &names).await, expected);
        assert_eq!(missing(Goal::Registered, &["node1", "node2"]).await, "");
        let expected =
            "node2 has no pod subnet (the controller manager needs --allocate-node-cidrs)";
        assert_eq!(
            missing(Goal::PodSubnet, &["node1", "node2"]).await,
            expected
        );
        assert_eq!(missing(Goal::PodSubnet, &["node1"]).await, "");
    }

    #[tokio::test]
    async fn api_server_that_refuses_is_asked_again() {
        let wait = NodesWait::new(Goal::Ready, &[], Duration::from_secs(1));
        let refused = wait.poll(&FakeApi::new([])).await.unwrap();
        assert_eq!(refused, Condition::Unmet("refused".to_owned()));
    }
}
