//! Objects of the cluster, as `kubectl get -o json` prints them.

use serde::Deserialize;

/// A list of objects.
#[derive(Deserialize)]
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
pub(super) struct Owner {
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
}

/// Returns the status of the condition `Ready`, which is `True`, `False` or `Unknown`; empty if there is none.
fn ready(conditions: &[Condition]) -> &str {
    let mut conditions = conditions.iter();
    let ready = conditions.find(|condition| condition.kind == "Ready");
    ready.map_or("", |ready| ready.status.as_str())
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Node {
    pub(super) spec: NodeSpec,
    pub(super) status: NodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct NodeSpec {
    pub(super) unschedulable: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeStatus {
    pub(super) node_info: NodeInfo,
    conditions: Vec<Condition>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeInfo {
    pub(super) kubelet_version: String,
    pub(super) container_runtime_version: String,
}

impl Node {
    pub(super) fn ready(&self) -> &str {
        ready(&self.status.conditions)
    }
}

#[derive(Deserialize)]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) node_name: String,
    volumes: Vec<Volume>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodStatus {
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimName>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimName {
    claim_name: String,
}

impl Pod {
    pub(super) fn is_ready(&self) -> bool {
        ready(&self.status.conditions) == "True"
    }

    pub(super) fn is_of_daemon_set(&self) -> bool {
        let mut owners = self.metadata.owner_references.iter();
        owners.any(|owner| owner.kind == "DaemonSet")
    }

    /// Returns the names of its claims. The claim of an ephemeral volume has the names of pod and volume.
    pub(super) fn claims(&self) -> impl Iterator<Item = String> {
        self.spec.volumes.iter().filter_map(|volume| {
            let of_pod = || format!("{}-{}", self.metadata.name, volume.name);
            let claim = volume.persistent_volume_claim.as_ref();
            let claim = claim.map(|claim| claim.claim_name.clone());
            claim.or_else(|| volume.ephemeral.as_ref().map(|_| of_pod()))
        })
    }
}

#[derive(Deserialize)]
pub(super) struct PersistentVolume {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: PersistentVolumeSpec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PersistentVolumeSpec {
    pub(super) claim_ref: Option<Metadata>,
}

#[derive(Deserialize)]
pub(super) struct Attachment {
    pub(super) metadata: Metadata,
    pub(super) spec: AttachmentSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttachmentSpec {
    pub(super) node_name: String,
    #[serde(default)]
    pub(super) source: AttachmentSource,
}

/// What is attached. An inline volume of a pod has no persistent volume.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AttachmentSource {
    pub(super) persistent_volume_name: Option<String>,
}

/// A PodDisruptionBudget.
#[derive(Deserialize)]
pub(super) struct Budget {
    pub(super) metadata: Metadata,
    pub(super) status: Option<BudgetStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct BudgetStatus {
    pub(super) disruptions_allowed: i64,
    pub(super) current_healthy: i64,
    pub(super) desired_healthy: i64,
}
