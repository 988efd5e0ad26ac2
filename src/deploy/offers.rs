//! What a cluster offers to applications besides Kubernetes itself.

use kubexm_bundle::Lock;
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_config::Cluster;
use kubexm_engine::plan::StepError;
use kubexm_types::artifact::ArtifactKind;
use kubexm_types::event::Offers;
use serde::Deserialize;

use crate::applications::content;
use crate::objects::{Class, Condition, Metadata, Server, condition};

/// The line of `spec.applications` for a default StorageClass.
pub const STORAGE_LINE: &str = "{addon: local-path-provisioner}";
/// The line of `spec.applications` for an ingress class.
pub const INGRESS_LINE: &str = "{addon: traefik}";
/// The line of `spec.applications` for the metrics API.
pub const METRICS_LINE: &str = "{addon: metrics-server}";

/// The API of `kubectl top`.
const METRICS: &str = "v1beta1.metrics.k8s.io";

#[derive(Deserialize)]
#[serde(tag = "kind")]
enum Offered {
    StorageClass(Class),
    IngressClass(Class),
    #[serde(rename = "APIService")]
    ApiService(ApiService),
}

#[derive(Deserialize)]
struct ApiService {
    metadata: Metadata,
    #[serde(default)]
    status: ApiServiceStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ApiServiceStatus {
    conditions: Vec<Condition>,
}

/// Asks an API server about classes and metrics, by one question. The other fields are not known.
///
/// # Errors
/// It does not answer.
pub async fn ask(server: Server<'_>) -> Result<Offers, StepError> {
    let words = ["storageclasses,ingressclasses,apiservices"];
    let what = "read what the cluster offers to applications";
    let mut offers = Offers::default();
    for object in server.list::<Offered>(what, &words).await? {
        match object {
            Offered::StorageClass(class) if class.is_default() => {
                offers.storage_class = Some(class.metadata.name);
            }
            Offered::StorageClass(_) => {}
            Offered::IngressClass(class) => {
                if offers.ingress_class.is_none() || class.is_default() {
                    offers.ingress_class = Some(class.metadata.name);
                }
            }
            Offered::ApiService(api) => {
                let available = condition(&api.status.conditions, "Available");
                let answers = available.is_some_and(|available| available.status == "True");
                offers.metrics |= api.metadata.name == METRICS && answers;
            }
        }
    }
    Ok(offers)
}

/// Returns the number of charts and manifests of a bundle that no application of the cluster file consists of.
pub fn not_applied(cluster: &Cluster, lock: &Lock) -> usize {
    let applications = cluster.applications.iter();
    let parts = applications.filter_map(|one| content(lock, one).ok());
    let applied: Vec<&LockedArtifact> = parts.flatten().collect();
    let is_applied =
        |artifact: &LockedArtifact| applied.iter().any(|one| std::ptr::eq(*one, artifact));
    let artifacts = lock.artifacts.iter();
    let artifacts = artifacts.filter(|artifact| artifact.kind != ArtifactKind::File);
    artifacts.filter(|artifact| !is_applied(artifact)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::FakeApi;
    use serde_json::{Value, json};

    fn class(kind: &str, name: &str, annotation: Option<&str>) -> Value {
        let annotations = annotation.map(|key| json!({key: "true"}));
        let annotations = annotations.unwrap_or(json!({}));
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "annotations": annotations}})
    }

    async fn offered(items: Value) -> Offers {
        let host = FakeApi::new([("storageclasses", json!({"kind": "List", "items": items}))]);
        ask(Server::of(&host)).await.unwrap()
    }

    #[tokio::test]
    async fn classes_and_metrics_are_found() {
        assert_eq!(offered(json!([])).await, Offers::default());
        let metrics = json!({
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io", "creationTimestamp": "2026-01-02T03:00:00Z"},
            "status": {"conditions": [{"type": "Available", "status": "True", "lastTransitionTime": "2026-01-02T03:00:00Z"}]},
        });
        let found = offered(json!([
            class("StorageClass", "slow", None),
            class(
                "StorageClass",
                "local-path",
                Some("storageclass.kubernetes.io/is-default-class")
            ),
            class("IngressClass", "nginx", None),
            class(
                "IngressClass",
                "traefik",
                Some("ingressclass.kubernetes.io/is-default-class")
            ),
            class("IngressClass", "z", None),
            metrics,
        ]));
        let expected = Offers {
            storage_class: Some("local-path".to_owned()),
            ingress_class: Some("traefik".to_owned()),
            metrics: true,
            ..Offers::default()
        };
        assert_eq!(found.await, expected);
        // No pod claims a volume of such a class by default.
        let other = offered(json!([class("StorageClass", "slow", None)])).await;
        assert_eq!(other, Offers::default());
    }
}
