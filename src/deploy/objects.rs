//! Objects of the cluster, as `kubectl get -o json` prints them, with the fields that kubexm reads.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use kubexm_engine::plan::StepError;
use kubexm_engine::{Command, Host, Limit};
use kubexm_scripts::kubernetes::{DELETE, GET};
use kubexm_types::{Message, Version};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

/// The largest answer, because a hostile host must not exhaust memory.
const LARGEST: u64 = 1 << 30;

/// How often an API server is asked that has just started and refuses requests.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_secs(3);

/// An API server, and how kubexm asks it.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    host: &'a dyn Host,
    url: &'a str,
    limit: Limit,
}

impl<'a> Server<'a> {
    /// Returns the API server that a host with a control plane asks: that of `admin.conf`.
    pub fn of(host: &'a dyn Host) -> Self {
        Self {
            host,
            url: "",
            limit: Limit::CHANGE,
        }
    }

    /// Returns the API server with this URL, which the host asks.
    #[must_use]
    pub fn at(self, url: &'a str) -> Self {
        Self { url, ..self }
    }

    /// Sets how long an answer may take.
    #[must_use]
    pub fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// Returns the objects of a list. `words` are the arguments of `kubectl get`, and `what` is the action for errors.
    ///
    /// # Errors
    /// The API server does not answer, or the answer has another form.
    pub async fn list<T: DeserializeOwned>(
        self,
        what: &str,
        words: &[&str],
    ) -> Result<Vec<T>, StepError> {
        let list = self.find::<List<T>>(what, words).await?;
        Ok(list.map_or_else(Vec::new, |list| list.items))
    }

    /// Returns an object, or `None` with `--ignore-not-found` for one that does not exist.
    ///
    /// # Errors
    /// As for [`Server::list`], or there is no such object.
    pub async fn find<T: DeserializeOwned>(
        self,
        what: &str,
        words: &[&str],
    ) -> Result<Option<T>, StepError> {
        let words = std::iter::once(self.url).chain(words.iter().copied());
        let command = Command::from_script(GET, words).describe(what);
        // Pods can have secrets in their environment.
        let command = command.limit(self.limit).secret_output();
        let output = StepError::unless_done(what, self.host.run(command).await?)?;
        parse(&output.stdout).map_err(|error| {
            let said = format!("{what}: the answer of kubectl is invalid: {error}");
            StepError::Other(Message::quoting(said))
        })
    }

    /// Like [`Server::find`], and asks again for at most a minute if the API server refuses.
    ///
    /// # Errors
    /// As for [`Server::find`].
    pub async fn find_patiently<T: DeserializeOwned>(
        self,
        what: &str,
        words: &[&str],
    ) -> Result<Option<T>, StepError> {
        let mut tries = 1;
        loop {
            match self.find(what, words).await {
                Err(StepError::Command { .. }) if tries < TRIES => {
                    tries += 1;
                    sleep(BETWEEN_TRIES).await;
                }
                ended => return ended,
            }
        }
    }
}

/// Deletes objects. `words` are the arguments of `kubectl delete`. Asks for at most a minute.
///
/// # Errors
/// The API server refuses.
pub(crate) async fn delete(
    host: &dyn Host,
    what: &str,
    words: impl IntoIterator<Item = String>,
) -> Result<(), StepError> {
    let command = Command::from_script(DELETE, words).describe(what);
    let output = host.run(command.limit(Limit::CHANGE)).await?;
    StepError::unless_done(what, output).map(drop)
}

/// Parses compressed JSON; `None` if it is empty.
fn parse<T: DeserializeOwned>(compressed: &[u8]) -> Result<Option<T>, serde_json::Error> {
    let mut json = BufReader::new(MultiGzDecoder::new(compressed).take(LARGEST));
    if json.fill_buf().map_err(serde_json::Error::io)?.is_empty() {
        return Ok(None);
    }
    serde_json::from_reader(json).map(Some)
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// The metadata of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    pub name: String,
    /// Empty for an object of the whole cluster.
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner_references: Vec<Owner>,
}

impl Metadata {
    /// Returns `NAMESPACE/NAME`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// An object because of which another one exists.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Owner {
    pub kind: String,
    /// Whether it creates the object again.
    #[serde(default)]
    pub controller: bool,
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
pub struct Object {
    pub metadata: Metadata,
}

/// A condition in the status of an object.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(default)]
    pub message: String,
}

fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: Metadata,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Whether it is cordoned.
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Vec<String>,
}

/// A taint. The API identifies it by key and effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Taint {
    pub key: String,
    pub effect: String,
    #[serde(default)]
    pub value: String,
}

/// The status of a node. One that has only been registered has neither information nor conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    pub node_info: NodeInfo,
    pub conditions: Vec<Condition>,
    pub addresses: Vec<NodeAddress>,
}

/// What the kubelet reports about its host. A value that it did not report is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeInfo {
    pub kubelet_version: String,
    pub container_runtime_version: String,
    pub kernel_version: String,
    pub os_image: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NodeAddress {
    /// Such as `InternalIP` or `Hostname`.
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

impl Node {
    /// Returns the condition of a kind.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition(&self.status.conditions, kind)
    }

    /// Returns the status of the condition `Ready`, which is `True`, `False` or `Unknown`; empty if there is none.
    pub fn ready(&self) -> &str {
        let ready = self.condition("Ready");
        ready.map_or("", |ready| ready.status.as_str())
    }

    /// Returns the version of the kubelet that reports the status.
    pub fn kubelet(&self) -> Option<Version> {
        self.status.node_info.kubelet_version.parse().ok()
    }
}

/// A pod.
#[derive(Deserialize)]
pub struct Pod {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

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

#[derive(Deserialize)]
pub struct PersistentVolume {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: PersistentVolumeSpec,
    #[serde(default)]
    status: PersistentVolumeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeSpec {
    pub claim_ref: Option<Metadata>,
    node_affinity: NodeAffinity,
}

#[derive(Deserialize, Default)]
struct PersistentVolumeStatus {
    #[serde(default)]
    phase: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeAffinity {
    required: NodeSelector,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelector {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelectorTerm {
    match_expressions: Vec<MatchExpression>,
}

#[derive(Deserialize)]
struct MatchExpression {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl NodeSelectorTerm {
    /// Returns the only node that the term permits.
    fn node(&self) -> Option<&str> {
        self.match_expressions.iter().find_map(|expression| {
            let is_name = expression.key == "kubernetes.io/hostname" && expression.operator == "In";
            match &expression.values[..] {
                [node] if is_name => Some(node.as_str()),
                _ => None,
            }
        })
    }
}

impl PersistentVolume {
    /// Returns the node that has its data, if a pod has used it and no other node can have it.
    pub fn only_node(&self) -> Option<&str> {
        let mut terms = self.spec.node_affinity.required.node_selector_terms.iter();
        let node = terms.next()?.node()?;
        let is_used = self.status.phase != "Available";
        (is_used && terms.all(|term| term.node() == Some(node))).then_some(node)
    }
}

#[derive(Deserialize)]
pub struct Attachment {
    pub metadata: Metadata,
    pub spec: AttachmentSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentSpec {
    pub node_name: String,
    #[serde(default)]
    pub source: AttachmentSource,
}

/// What is attached. An inline volume of a pod has no persistent volume.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct AttachmentSource {
    pub persistent_volume_name: Option<String>,
}

/// A PodDisruptionBudget.
#[derive(Deserialize)]
pub struct Budget {
    pub metadata: Metadata,
    pub status: Option<BudgetStatus>,
}

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

/// The images in the specification of an object that has pods, or is one.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Images {
    init_containers: Vec<Container>,
    containers: Vec<Container>,
    ephemeral_containers: Vec<Container>,
    volumes: Vec<ImageVolume>,
    template: Option<Template>,
    job_template: Option<Template>,
}

#[derive(Deserialize)]
struct Template {
    spec: Box<Images>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    image: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ImageVolume {
    image: ImageReference,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ImageReference {
    reference: String,
}

impl Images {
    /// Returns the names. Users of the cluster can write any text there.
    pub fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        let containers = [
            &self.init_containers,
            &self.containers,
            &self.ephemeral_containers,
        ];
        let containers = containers.into_iter().flatten();
        let own = containers.map(|container| container.image.as_str());
        let volumes = self.volumes.iter();
        let volumes = volumes.map(|volume| volume.image.reference.as_str());
        let templates = self.template.iter().chain(&self.job_template);
        let of_pods = templates.flat_map(|template| template.spec.names());
        let all = own.chain(volumes).chain(of_pods);
        Box::new(all.filter(|name| !name.is_empty()))
    }
}
