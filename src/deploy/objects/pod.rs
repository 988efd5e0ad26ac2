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
    pub status: PodStatus,
}

/// The specification of a pod.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: String,
    /// Whether it has the network of its host.
    pub host_network: bool,
    /// The name of its RuntimeClass; empty without one.
    pub runtime_class_name: String,
    volumes: Vec<Volume>,
}

/// The status of a pod.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    pub conditions: Vec<Condition>,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// The status of a container.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct ContainerStatus {
    pub ready: bool,
    pub image: String,
    pub state: ContainerState,
}

/// Why a container does not run. One that runs has none of both.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct ContainerState {
    pub waiting: Option<Halt>,
    pub terminated: Option<Halt>,
}

/// How a container waits or ended.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Halt {
    pub reason: String,
    /// Of a container that ended, it can be the end of its log.
    pub message: String,
    /// 0 for a container that waits.
    pub exit_code: i64,
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
    /// Returns the condition of a kind.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition(&self.status.conditions, kind)
    }

    pub fn is_ready(&self) -> bool {
        let ready = self.condition("Ready");
        ready.is_some_and(|ready| ready.status == "True")
    }

    /// Returns the status of each container, those that initialize the pod last.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        let all = self.status.container_statuses.iter();
        all.chain(&self.status.init_container_statuses)
    }

    /// Returns the containers that are not ready, and why each waits or ended. A container that crashed a moment ago is between its
    /// states.
    pub fn halted(&self) -> impl Iterator<Item = (&ContainerStatus, &Halt)> {
        let ill = self.containers().filter(|container| !container.ready);
        ill.filter_map(|container| {
            let state = &container.state;
            let ended = state
                .terminated
                .as_ref()
                .filter(|ended| ended.exit_code != 0);
            Some((container, state.waiting.as_ref().or(ended)?))
        })
    }

    /// Returns whether a container has ended with a failure.
    pub fn has_crashed(&self) -> bool {
        let mut halted = self.halted();
        halted.any(|(_, halt)| halt.exit_code != 0 || halt.reason == "CrashLoopBackOff")
    }

    /// Returns why the pod is not ready, if it says so.
    pub fn trouble(&self) -> Option<String> {
        let scheduled = self.condition("PodScheduled");
        if let Some(condition) = scheduled.filter(|scheduled| scheduled.status == "False") {
            return Some(format!("not scheduled: {}", condition.message));
        }
        let Some((_, halt)) = self.halted().next() else {
            let ready = self.condition("Ready")?;
            let says = ready.status != "True" && !ready.message.is_empty();
            return says.then(|| format!("not ready: {}", ready.message));
        };
        Some(match (halt.message.as_str(), halt.exit_code) {
            ("", 0) => halt.reason.clone(),
            (message, 0) => format!("{}: {message}", halt.reason),
            (_, status) => format!("{}: exit status {status}", halt.reason),
        })
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
