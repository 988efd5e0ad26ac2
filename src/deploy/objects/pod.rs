//! Pods, and what permits their eviction.

use serde::Deserialize;

use super::{Condition, Metadata, condition};

/// A pod.
#[derive(Deserialize)]
pub struct Pod {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

/// The specification of a pod.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: String,
    volumes: Vec<Volume>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodStatus {
    phase: String,
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
    pub fn is_ready(&self) -> bool {
        let ready = condition(&self.status.conditions, "Ready");
        ready.is_some_and(|ready| ready.status == "True")
    }

    /// Returns whether all of its containers have ended for good.
    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub fn is_of_daemon_set(&self) -> bool {
        let mut owners = self.metadata.owner_references.iter();
        owners.any(|owner| owner.kind == "DaemonSet")
    }

    /// Returns the names of its claims. The claim of an ephemeral volume has the names of pod and volume.
    pub fn claims(&self) -> impl Iterator<Item = String> {
        self.spec.volumes.iter().filter_map(|volume| {
            let of_pod = || format!("{}-{}", self.metadata.name, volume.name);
            let claim = volume.persistent_volume_claim.as_ref();
            let claim = claim.map(|claim| claim.claim_name.clone());
            claim.or_else(|| volume.ephemeral.as_ref().map(|_| of_pod()))
        })
    }
}

/// A PodDisruptionBudget.
#[derive(Deserialize)]
pub struct Budget {
    pub metadata: Metadata,
    pub status: Option<BudgetStatus>,
}

/// How many pods of a budget there are, and how many may be evicted.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetStatus {
    pub disruptions_allowed: i64,
    pub expected_pods: i64,
    pub current_healthy: i64,
    pub desired_healthy: i64,
}

impl Budget {
    /// Returns whether it permits no eviction of its pods now.
    pub fn permits_nothing(&self) -> bool {
        let mut status = self.status.iter();
        status.any(|status| status.disruptions_allowed == 0 && status.expected_pods > 0)
    }
}
