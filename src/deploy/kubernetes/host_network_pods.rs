//! Pods on the network of their host, which have its address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use async_trait::async_trait;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};

use crate::objects::{Pod, Server, delete};

/// The annotation of a pod that stands for a static pod. The kubelet creates it again
/// (<https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-mirror>).
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Deletes pods on the network of their host that have an address which the host no longer has, and that come again. A kubelet that
/// restarts keeps the address in the status of a pod, so services would lead to the former network.
pub(crate) struct HostNetworkPods {
    /// The addresses of the nodes.
    nodes: BTreeMap<String, Vec<IpAddr>>,
}

impl HostNetworkPods {
    pub(crate) fn of(nodes: &[&HostSpec]) -> Self {
        let nodes = nodes.iter().map(|host| {
            let addresses = host.internal_addresses.iter().collect();
            (host.name.to_string(), addresses)
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    fn is_of_former_address(&self, pod: &Pod) -> bool {
        let (Some(addresses), Ok(address)) = (
            self.nodes.get(&pod.spec.node_name),
            pod.status.pod_ip.parse::<IpAddr>(),
        ) else {
            return false;
        };
        let metadata = &pod.metadata;
        let comes_again =
            metadata.annotations.contains_key(MIRROR) || !metadata.owner_references.is_empty();
        pod.spec.host_network && comes_again && !addresses.contains(&address)
    }

    async fn found(&self, host: &dyn Host) -> Result<Vec<Pod>, StepError> {
        let server = Server::of(host).patiently();
        let mut pods: Vec<Pod> = server.list(&self.describe(), &["pods", "-A"]).await?;
        pods.retain(|pod| self.is_of_former_address(pod));
        Ok(pods)
    }
}

impl Describe for HostNetworkPods {
    fn id(&self) -> String {
        "host network pods".to_owned()
    }

    fn describe(&self) -> String {
        "Give pods on the network of their host its present address".to_owned()
    }
}

impl From<HostNetworkPods> for Step {
    fn from(step: HostNetworkPods) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for HostNetworkPods {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let found = self.found(host).await?;
        let lines = found.iter().map(|pod| {
            let (path, address) = (pod.metadata.path(), &pod.status.pod_ip);
            format!("{path} has the address {address}")
        });
        Ok(Check::of_differences(lines))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        for pod in self.found(context.host).await? {
            let metadata = &pod.metadata;
            let mut words = vec!["pod", &metadata.name, "-n", &metadata.namespace];
            if metadata.annotations.contains_key(MIRROR) {
                // The container of the static pod goes on. The kubelet must not find the former object.
                words.extend(["--force", "--grace-period=0"]);
            }
            let words = words.into_iter().map(str::to_owned);
            delete(context.host, &self.describe(), words).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, apply};
    use serde_json::{Value, json};

    fn pod(name: &str, metadata: Value, host_network: bool, address: &str) -> Value {
        let mut metadata = metadata;
        metadata["name"] = name.into();
        metadata["namespace"] = "a".into();
        let spec = json!({"nodeName": "node1", "hostNetwork": host_network});
        json!({"metadata": metadata, "spec": spec, "status": {"podIP": address}})
    }

    #[tokio::test]
    async fn pods_with_a_former_address_of_their_host_start_again() {
        let mirror = || json!({"annotations": {MIRROR: "x"}});
        let owned = || json!({"ownerReferences": [{"kind": "DaemonSet", "controller": true}]});
        let pods = [
            pod("static", mirror(), true, "198.51.100.1"),
            pod("of-set", owned(), true, "198.51.100.1"),
            pod("alone", json!({}), true, "198.51.100.1"),
            pod("right", owned(), true, "192.0.2.11"),
            pod("own-network", owned(), false, "10.244.0.2"),
            pod("pending", owned(), true, ""),
        ];
        let host = FakeApi::new([("pods -A", json!({"items": pods}))]);
        let step = HostNetworkPods {
            nodes: BTreeMap::from([("node1".to_owned(), vec!["192.0.2.11".parse().unwrap()])]),
        };
        let found = "a/static has the address 198.51.100.1\na/of-set has the address 198.51.100.1";
        assert_eq!(step.check(&host).await.unwrap(), Check::needed(found));
        apply(&step, &host).await.unwrap();
        let expected = [
            "pod static -n a --force --grace-period=0",
            "pod of-set -n a",
        ];
        assert_eq!(host.changes(), expected);
    }
}
