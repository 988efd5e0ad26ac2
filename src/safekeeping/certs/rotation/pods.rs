//! Pods and what they belong to, as the API states them.

use kubexm_deploy::objects::Metadata;
use kubexm_types::UtcTime;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A pod.
#[derive(Deserialize)]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    volumes: Vec<Source>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    env: Vec<Source>,
    env_from: Vec<Source>,
}

/// From what a volume or a variable has its content.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Source {
    #[serde(alias = "configMapKeyRef", alias = "configMapRef")]
    config_map: Option<Name>,
    #[serde(alias = "secretKeyRef", alias = "secretRef")]
    secret: Option<Name>,
    #[serde(alias = "projected")]
    value_from: Option<Box<Source>>,
    /// Those of a projected volume.
    sources: Vec<Source>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Name {
    #[serde(alias = "secretName")]
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerStatus {
    state: ContainerState,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerState {
    running: Option<Running>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Running {
    started_at: UtcTime,
}

impl Pod {
    /// Returns the start of its oldest container that runs.
    pub(super) fn oldest_start(&self) -> Option<&UtcTime> {
        let status = &self.status;
        let all = status
            .container_statuses
            .iter()
            .chain(&status.init_container_statuses);
        let running = all.filter_map(|container| container.state.running.as_ref());
        running.map(|running| &running.started_at).min()
    }

    /// Returns whether it reads the CA of the API server: from the ConfigMap of its namespace, or from a Secret that has it.
    pub(super) fn reads_ca(&self, has_ca: impl Fn(&str) -> bool) -> bool {
        let containers = self
            .spec
            .containers
            .iter()
            .chain(&self.spec.init_containers);
        let variables =
            containers.flat_map(|container| container.env.iter().chain(&container.env_from));
        let mut all = self.spec.volumes.iter().chain(variables);
        all.any(|source| source.has_ca(&has_ca))
    }
}

impl Source {
    fn has_ca(&self, secret_has_ca: &dyn Fn(&str) -> bool) -> bool {
        let mut map = self.config_map.iter();
        let mut secret = self.secret.iter();
        let mut others = self.value_from.as_deref().into_iter().chain(&self.sources);
        map.any(|map| map.name == "kube-root-ca.crt")
            || secret.any(|secret| secret_has_ca(&secret.name))
            || others.any(|source| source.has_ca(secret_has_ca))
    }
}

/// A Deployment, DaemonSet or StatefulSet.
#[derive(Deserialize, Default)]
pub(super) struct Controller {
    spec: ControllerSpec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ControllerSpec {
    paused: bool,
    update_strategy: UpdateStrategy,
    template: Template,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UpdateStrategy {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Template {
    metadata: Metadata,
}

impl Controller {
    /// Returns whether Kubernetes replaces its pods after a restart.
    pub(super) fn replaces_pods(&self) -> bool {
        !self.spec.paused && self.spec.update_strategy.kind != "OnDelete"
    }

    /// Returns whether kubectl has restarted it since a time. kubectl states its own time zone.
    pub(super) fn has_restarted_since(&self, since: &UtcTime) -> bool {
        let annotations = &self.spec.template.metadata.annotations;
        let restarted = annotations.get("kubectl.kubernetes.io/restartedAt");
        let restarted = restarted.and_then(|at| OffsetDateTime::parse(at, &Rfc3339).ok());
        restarted.is_some_and(|at| at >= since.time())
    }
}
