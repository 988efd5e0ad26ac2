//! The endpoint of the control plane that objects of the cluster name.

use async_trait::async_trait;
use kubexm_config::Cluster;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use serde_json::json;

use super::kubeconfig::with_field;
use crate::objects::{ConfigMap, Server, delete, patch};

/// The kubeconfigs in objects that kubeadm creates: namespace, ConfigMap and key. That of kube-proxy is first: an interrupted
/// change leaves the other one, so that the next run deletes the pods of kube-proxy again.
const KUBECONFIGS: [[&str; 3]; 2] = [
    ["kube-system", "kube-proxy", "kubeconfig.conf"],
    ["kube-public", "cluster-info", "kubeconfig"],
];
/// The pods of kube-proxy, which read their kubeconfig when they start.
const PODS: [&str; 5] = ["pods", "-n", "kube-system", "-l", "k8s-app=kube-proxy"];

/// Stores the endpoint of the cluster file for kube-proxy and for nodes that join. `kubeadm init` alone writes these objects, so
/// those of a backup name the endpoint of the hosts that the cluster had then.
pub(crate) struct StoredEndpoint(String);

/// A kubeconfig of an object that names another endpoint.
struct Other {
    place: [&'static str; 3],
    /// The kubeconfig with the endpoint of the cluster file.
    desired: String,
}

impl StoredEndpoint {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self(format!("https://{}", cluster.control_plane_endpoint))
    }

    /// Returns the kubeconfigs with other endpoints. A cluster without kube-proxy has one object only.
    async fn others(&self, host: &dyn Host) -> Result<Vec<Other>, StepError> {
        let mut others = Vec::new();
        for place in KUBECONFIGS {
            let [namespace, name, key] = place;
            let words = ["configmap", name, "-n", namespace, "--ignore-not-found"];
            let server = Server::of(host).patiently();
            let found: Option<ConfigMap> = server.find(&self.describe(), &words).await?;
            let Some(present) = found.and_then(|mut found| found.data.remove(key)) else {
                continue;
            };
            let desired = with_field(&present, "server", |server| server == self.0, &self.0);
            if desired != present {
                others.push(Other { place, desired });
            }
        }
        Ok(others)
    }
}

impl Describe for StoredEndpoint {
    fn id(&self) -> String {
        "stored endpoint".to_owned()
    }

    fn describe(&self) -> String {
        "Store the endpoint of the control plane for kube-proxy and for nodes that join".to_owned()
    }
}

impl From<StoredEndpoint> for Step {
    fn from(step: StoredEndpoint) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for StoredEndpoint {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let others = self.others(host).await?;
        let lines = others.iter().map(|other| {
            let [namespace, name, _] = other.place;
            format!(
                "the ConfigMap {namespace}/{name} has another endpoint than {}",
                self.0
            )
        });
        let lines: Vec<String> = lines.collect();
        Ok(if lines.is_empty() {
            Check::Satisfied
        } else {
            Check::needed(lines.join("\n"))
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let (host, title) = (context.host, self.describe());
        let others = self.others(host).await?;
        let [of_proxy, of_joins]: [Vec<&Other>; 2] = KUBECONFIGS.map(|place| {
            let others = others.iter();
            others.filter(|other| other.place == place).collect()
        });
        let store = async |other: &Other| {
            let [namespace, name, key] = other.place;
            let fields = json!({"data": {key: other.desired}});
            let words = ["configmap", name, "-n", namespace];
            patch(host, &title, &words, &fields).await
        };
        for other in of_proxy {
            store(other).await?;
        }
        if !others.is_empty() {
            delete(host, &title, PODS.map(str::to_owned)).await?;
        }
        for other in of_joins {
            store(other).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, apply};
    use serde_json::Value;

    const PROXY: &str = "configmap kube-proxy -n kube-system --ignore-not-found";
    const JOINS: &str = "configmap cluster-info -n kube-public --ignore-not-found";

    fn text(server: &str) -> String {
        format!("clusters:\n- cluster:\n    server: {server}\n  name: default\n")
    }

    fn object(key: &str, server: &str) -> Value {
        json!({"data": {key: text(server), "other": "server: a"}})
    }

    fn step() -> StoredEndpoint {
        StoredEndpoint("https://192.0.2.99:6443".to_owned())
    }

    #[tokio::test]
    async fn kube_proxy_and_joins_get_the_endpoint() {
        let host = FakeApi::new([
            (
                PROXY,
                object("kubeconfig.conf", "https://198.51.100.1:6443"),
            ),
            (JOINS, object("kubeconfig", "\"https://198.51.100.1:6443\"")),
        ]);
        let found = step().check(&host).await.unwrap();
        let lines = "the ConfigMap kube-system/kube-proxy has another endpoint than https://192.0.2.99:6443\n\
                     the ConfigMap kube-public/cluster-info has another endpoint than https://192.0.2.99:6443";
        assert_eq!(found, Check::needed(lines));
        apply(&step(), &host).await.unwrap();
        let change = |place: &str, key: &str| {
            let fields = json!({"data": {key: text("https://192.0.2.99:6443")}});
            format!("configmap {place} --patch {fields}")
        };
        let expected = [
            change("kube-proxy -n kube-system", "kubeconfig.conf"),
            "pods -n kube-system -l k8s-app=kube-proxy".to_owned(),
            change("cluster-info -n kube-public", "kubeconfig"),
        ];
        assert_eq!(host.changes(), expected);
    }

    #[tokio::test]
    async fn nothing_changes_with_the_endpoint_or_without_these_objects() {
        let same = FakeApi::new([
            (PROXY, object("kubeconfig.conf", "https://192.0.2.99:6443")),
            (JOINS, object("kubeconfig", "https://192.0.2.99:6443")),
        ]);
        for host in [same, FakeApi::new([])] {
            assert_eq!(step().check(&host).await.unwrap(), Check::Satisfied);
            apply(&step(), &host).await.unwrap();
            assert_eq!(host.changes(), [""; 0]);
        }
    }
}
