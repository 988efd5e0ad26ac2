//! What the cluster has because of a node, after the node has left it.

use async_trait::async_trait;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_types::HostName;
use serde::Deserialize;

use crate::objects::{Metadata, Object, Server, delete};
use kubexm_pki::kubernetes::node_user;

/// Removes the lease of a node, its CSINode, its certificate signing requests, and with Cilium its CiliumNode.
pub(crate) struct SweptNode(pub(crate) HostName);

#[derive(Deserialize)]
struct Request {
    metadata: Metadata,
    spec: RequestSpec,
}

#[derive(Deserialize)]
struct RequestSpec {
    #[serde(default)]
    username: String,
}

impl SweptNode {
    /// Returns the words of `kubectl delete` for each object.
    async fn leftovers(&self, host: &dyn Host) -> Result<Vec<Vec<String>>, StepError> {
        let server = Server::of(host).patiently();
        let (title, node) = (self.describe(), self.0.as_str());
        let mut objects: Vec<Vec<&str>> = vec![
            vec!["lease", node, "-n", "kube-node-lease"],
            vec!["csinode", node],
        ];
        let find = async |words: &[&str]| {
            let words = [words, &["--ignore-not-found"]].concat();
            let found = server.find::<Object>(&title, &words).await?;
            Ok::<bool, StepError>(found.is_some())
        };
        if find(&["crd", "ciliumnodes.cilium.io"]).await? {
            objects.push(vec!["ciliumnode", node]);
        }
        let mut found = Vec::new();
        for words in objects {
            if find(&words).await? {
                found.push(words.into_iter().map(str::to_owned).collect());
            }
        }
        let requests: Vec<Request> = server.list(&title, &["certificatesigningrequests"]).await?;
        let user = node_user(&self.0);
        let own = requests
            .into_iter()
            .filter(|request| request.spec.username == user);
        found.extend(own.map(|request| vec!["csr".to_owned(), request.metadata.name]));
        Ok(found)
    }
}

impl Describe for SweptNode {
    fn id(&self) -> String {
        format!("sweep {}", self.0)
    }

    fn describe(&self) -> String {
        format!(
            "Remove the lease, the CSINode and the certificate signing requests of {}",
            self.0
        )
    }
}

impl From<SweptNode> for Step {
    fn from(step: SweptNode) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for SweptNode {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let found = self.leftovers(host).await?;
        let names: Vec<String> = found.iter().map(|words| words[..2].join(" ")).collect();
        Ok(if names.is_empty() {
            Check::Satisfied
        } else {
            Check::needed(format!("the cluster has {}", names.join(", ")))
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        for words in self.leftovers(context.host).await? {
            delete(context.host, &self.describe(), words).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, apply};
    use serde_json::json;

    #[tokio::test]
    async fn objects_of_the_node_and_of_no_other_are_deleted() {
        let request = |name: &str, user: &str| json!({"metadata": {"name": name}, "spec": {"username": user}});
        let requests = [
            request("csr-1", "system:node:node1"),
            request("csr-2", "system:node:node11"),
        ];
        let object = || json!({"metadata": {"name": "node1"}});
        let host = FakeApi::new([
            ("lease node1 -n kube-node-lease", object()),
            ("csinode node1", object()),
            ("crd", object()),
            ("ciliumnode node1", object()),
            ("certificatesigningrequests", json!({"items": requests})),
        ]);
        let step = SweptNode("node1".parse().unwrap());
        let found = "the cluster has lease node1, csinode node1, ciliumnode node1, csr csr-1";
        assert_eq!(step.check(&host).await.unwrap(), Check::needed(found));
        apply(&step, &host).await.unwrap();
        let deleted = [
            "lease node1 -n kube-node-lease",
            "csinode node1",
            "ciliumnode node1",
            "csr csr-1",
        ];
        assert_eq!(host.changes(), deleted);
        let left = FakeApi::new([(
            "certificatesigningrequests",
            json!({"items": [requests[1]]}),
        )]);
        assert_eq!(step.check(&left).await.unwrap(), Check::Satisfied);
    }
}
