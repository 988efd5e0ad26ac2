//! The endpoint of the control plane that objects of the cluster name.

use async_trait::async_trait;
use kubexm_config::Cluster;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use serde_json::{Value, json};

use super::kubeconfig::with_field;
use crate::objects::{ConfigMap, Server, delete, patch};

/// The kubeconfigs in objects that kubeadm creates: namespace, ConfigMap and key.
const OF_PROXY: [&str; 3] = ["kube-system", "kube-proxy", "kubeconfig.conf"];
const OF_JOINS: [&str; 3] = ["kube-public", "cluster-info", "kubeconfig"];
/// The annotation of a ConfigMap whose pods have not started again since it changed.
const UNREAD: &str = "kubexm.io/unread";
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

    /// Returns the kubeconfig of an object if it has another endpoint, or if its pods have not read it. A cluster without kube-proxy
    /// has one object only.
    async fn other(
        &self,
        host: &dyn Host,
        place: [&'static str; 3],
    ) -> Result<Option<Other>, StepError> {
        let [namespace, name, key] = place;
        let words = ["configmap", name, "-n", namespace, "--ignore-not-found"];
        let server = Server::of(host).patiently();
        let found: Option<ConfigMap> = server.find(&self.describe(), &words).await?;
        let Some(mut found) = found else {
            return Ok(None);
        };
        let is_unread = found.metadata.annotations.contains_key(UNREAD);
        let Some(present) = found.data.remove(key) else {
            return Ok(None);
        };
        let desired = with_field(&present, "server", |server| server == self.0, &self.0);
        let differs = is_unread || desired != present;
        Ok(differs.then_some(Other { place, desired }))
    }

    async fn patch(
        &self,
        host: &dyn Host,
        [namespace, name, _]: [&str; 3],
        fields: &Value,
    ) -> Result<(), StepError> {
        let words = ["configmap", name, "-n", namespace];
        patch(host, &self.describe(), &words, fields).await
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
        let [of_proxy, of_joins] = [
            self.other(host, OF_PROXY).await?,
            self.other(host, OF_JOINS).await?,
        ];
        let lines = of_proxy.iter().chain(&of_joins).map(|other| {
            let [namespace, name, _] = other.place;
            format!(
                "the ConfigMap {namespace}/{name} has another endpoint than {}",
                self.0
            )
        });
        Ok(Check::of_differences(lines))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let host = context.host;
        if let Some(Other { place, desired }) = self.other(host, OF_PROXY).await? {
            let mark = |value: Value| json!({"annotations": {UNREAD: value}});
            let fields = json!({"metadata": mark("true".into()), "data": {place[2]: desired}});
            self.patch(host, place, &fields).await?;
            delete(host, &self.describe(), PODS.map(str::to_owned)).await?;
            let fields = json!({"metadata": mark(Value::Null)});
            self.patch(host, place, &fields).await?;
        }
        if let Some(Other { place, desired }) = self.other(host, OF_JOINS).await? {
            let fields = json!({"data": {place[2]: desired}});
            self.patch(host, place, &fields).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, apply};

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
        let change = |place: &str, fields: Value| format!("configmap {place} --patch {fields}");
        let present = text("https://192.0.2.99:6443");
        let of_proxy = json!({"metadata": {"annotations": {UNREAD: "true"}}, "data": {"kubeconfig.conf": present}});
        let read = json!({"metadata": {"annotations": {UNREAD: null}}});
        let of_joins = json!({"data": {"kubeconfig": present}});
        let expected = [
            change("kube-proxy -n kube-system", of_proxy),
            "pods -n kube-system -l k8s-app=kube-proxy".to_owned(),
            change("kube-proxy -n kube-system", read),
            change("cluster-info -n kube-public", of_joins),
        ];
        assert_eq!(host.changes(), expected);
    }

    #[tokio::test]
    async fn pods_of_an_interrupted_change_start_again() {
        let mut unread = object("kubeconfig.conf", "https://192.0.2.99:6443");
        unread["metadata"] = json!({"annotations": {UNREAD: "true"}});
        let host = FakeApi::new([(PROXY, unread)]);
        apply(&step(), &host).await.unwrap();
        let changes = host.changes();
        assert_eq!(changes[1], "pods -n kube-system -l k8s-app=kube-proxy");
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
