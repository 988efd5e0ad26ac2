//! Addresses of hosts that the API has of nodes, and of pods on the network of their host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use async_trait::async_trait;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use serde_json::{Value, json};

use crate::objects::{Node, Pod, Server, delete, patch};

/// The kind of the addresses that the cluster file states.
const INTERNAL: &str = "InternalIP";

/// Lets nodes and pods on the network of their host have its present addresses, after a restore. It comes before the kubelets
/// restart: a kubelet that starts takes the address of a static pod from its node, and never replaces the address of a pod.
pub(crate) struct PresentAddresses {
    /// Of each node, in the order that its kubelet reports.
    nodes: BTreeMap<String, Vec<IpAddr>>,
}

/// What has addresses of the time of the backup.
struct Former {
    nodes: Vec<Node>,
    /// Pods that come again.
    pods: Vec<Pod>,
}

impl PresentAddresses {
    /// Returns the step for these nodes.
    pub(crate) fn of(nodes: &[&HostSpec]) -> Self {
        let nodes = nodes.iter().map(|host| {
            let addresses = host.internal_addresses.iter().collect();
            (host.name.to_string(), addresses)
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    fn is_former_node(&self, node: &Node) -> bool {
        let present = self.nodes.get(&node.metadata.name);
        // The kubelet of a node without addresses has not reported any.
        present.is_some_and(|present| {
            let found: Vec<IpAddr> = internal(node).filter_map(|at| at.parse().ok()).collect();
            !found.is_empty() && &found != present
        })
    }

    fn is_former_pod(&self, pod: &Pod) -> bool {
        let (Some(present), Ok(address)) = (
            self.nodes.get(&pod.spec.node_name),
            pod.status.pod_ip.parse::<IpAddr>(),
        ) else {
            return false;
        };
        // A static pod is owned by its node.
        let mut owners = pod.metadata.owner_references.iter();
        let comes_again = owners.any(|owner| owner.kind != "Node");
        pod.spec.host_network && comes_again && !present.contains(&address)
    }

    async fn former(&self, host: &dyn Host) -> Result<Former, StepError> {
        let server = Server::of(host).patiently();
        let mut nodes: Vec<Node> = server.list(&self.describe(), &["nodes"]).await?;
        nodes.retain(|node| self.is_former_node(node));
        let mut pods: Vec<Pod> = server.list(&self.describe(), &["pods", "-A"]).await?;
        pods.retain(|pod| self.is_former_pod(pod));
        Ok(Former { nodes, pods })
    }

    /// Returns the addresses of a node, with those of the cluster file in the place of its own.
    fn desired(&self, node: &Node) -> Vec<Value> {
        let address = |kind: &str, address: &str| json!({"type": kind, "address": address});
        let present = self.nodes.get(&node.metadata.name).into_iter().flatten();
        let others = node.status.addresses.iter();
        let others = others.filter(|other| other.kind != INTERNAL);
        present
            .map(|present| address(INTERNAL, &present.to_string()))
            .chain(others.map(|other| address(&other.kind, &other.address)))
            .collect()
    }
}

fn internal(node: &Node) -> impl Iterator<Item = &str> {
    let addresses = node.status.addresses.iter();
    let internal = addresses.filter(|address| address.kind == INTERNAL);
    internal.map(|address| address.address.as_str())
}

impl Describe for PresentAddresses {
    fn id(&self) -> String {
        "present addresses".to_owned()
    }

    fn describe(&self) -> String {
        "Give nodes, and pods on the network of their host, its present address".to_owned()
    }
}

impl From<PresentAddresses> for Step {
    fn from(step: PresentAddresses) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for PresentAddresses {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let former = self.former(host).await?;
        let nodes = former.nodes.iter().map(|node| {
            let addresses: Vec<&str> = internal(node).collect();
            format!(
                "the node {} has {}",
                node.metadata.name,
                addresses.join(", ")
            )
        });
        let pods = former.pods.iter().map(|pod| {
            let (path, address) = (pod.metadata.path(), &pod.status.pod_ip);
            format!("the pod {path} has {address}")
        });
        Ok(Check::of_differences(nodes.chain(pods)))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let (host, what) = (context.host, self.describe());
        let former = self.former(host).await?;
        for node in &former.nodes {
            let fields = json!({"status": {"addresses": self.desired(node)}});
            // A strategic merge patch has one address for each type.
            let words = [
                "node",
                &node.metadata.name,
                "--subresource=status",
                "--type=merge",
            ];
            patch(host, &what, &words, &fields).await?;
        }
        for Pod { metadata, .. } in &former.pods {
            let words = ["pod", &metadata.name, "-n", &metadata.namespace];
            delete(host, &what, words.map(str::to_owned)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, apply};

    fn node(name: &str, addresses: &[[&str; 2]]) -> Value {
        let addresses = addresses.iter();
        let addresses = addresses.map(|[kind, address]| json!({"type": kind, "address": address}));
        let status = json!({"addresses": addresses.collect::<Vec<_>>()});
        json!({"metadata": {"name": name}, "status": status})
    }

    fn pod(name: &str, owner: Option<&str>, host_network: bool, address: &str) -> Value {
        let owner = owner.map(|kind| json!({"kind": kind}));
        let owners = owner.into_iter().collect::<Vec<_>>();
        let metadata = json!({"name": name, "namespace": "a", "ownerReferences": owners});
        let spec = json!({"nodeName": "node1", "hostNetwork": host_network});
        json!({"metadata": metadata, "spec": spec, "status": {"podIP": address}})
    }

    fn step() -> PresentAddresses {
        let present = vec![
            "192.0.2.11".parse().unwrap(),
            "2001:db8::11".parse().unwrap(),
        ];
        let nodes = ["node1", "node2", "node3"];
        PresentAddresses {
            nodes: nodes.map(|name| (name.to_owned(), present.clone())).into(),
        }
    }

    #[tokio::test]
    async fn nodes_and_pods_of_the_host_network_get_the_present_addresses() {
        let of_both = [["InternalIP", "192.0.2.11"], ["InternalIP", "2001:db8::11"]];
        let nodes = [
            node(
                "node1",
                &[["InternalIP", "198.51.100.1"], ["Hostname", "node1"]],
            ),
            node("node2", &of_both),
            node("node3", &[]),
            node("other", &[["InternalIP", "198.51.100.2"]]),
        ];
        let pods = [
            pod("of-set", Some("DaemonSet"), true, "198.51.100.1"),
            pod("static", Some("Node"), true, "198.51.100.1"),
            pod("alone", None, true, "198.51.100.1"),
            pod("right", Some("DaemonSet"), true, "192.0.2.11"),
            pod("own-network", Some("DaemonSet"), false, "10.244.0.2"),
            pod("pending", Some("DaemonSet"), true, ""),
        ];
        let host = FakeApi::new([
            ("nodes", json!({"items": nodes})),
            ("pods -A", json!({"items": pods})),
        ]);
        let found = "the node node1 has 198.51.100.1\nthe pod a/of-set has 198.51.100.1";
        assert_eq!(step().check(&host).await.unwrap(), Check::needed(found));
        apply(&step(), &host).await.unwrap();
        let address = |kind: &str, address: &str| json!({"type": kind, "address": address});
        let desired = [
            address("InternalIP", "192.0.2.11"),
            address("InternalIP", "2001:db8::11"),
            address("Hostname", "node1"),
        ];
        let fields = json!({"status": {"addresses": desired}});
        let of_node = format!("node node1 --subresource=status --type=merge --patch {fields}");
        assert_eq!(host.changes(), [of_node.as_str(), "pod of-set -n a"]);
    }
}
