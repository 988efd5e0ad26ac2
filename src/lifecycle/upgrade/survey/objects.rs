//! The objects that an upgrade or the removal of a node depends on.

use std::collections::BTreeSet;

use kubexm_deploy::objects::{Budget, Condition, Images, Metadata, Node, PersistentVolume, Pod};
use serde::Deserialize;

/// The resources of [`Object`], for `kubectl get`.
pub(super) const RESOURCES: &str = "nodes,certificatesigningrequests,poddisruptionbudgets,pods,persistentvolumes,\
     validatingwebhookconfigurations,mutatingwebhookconfigurations,endpointslices,daemonsets,deployments,clusterroles,roles";

/// An object of the cluster.
#[derive(Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Object {
    Node(Node),
    CertificateSigningRequest(Request),
    PodDisruptionBudget(Budget),
    Pod(Pod),
    PersistentVolume(PersistentVolume),
    ValidatingWebhookConfiguration(Webhooks),
    MutatingWebhookConfiguration(Webhooks),
    EndpointSlice(EndpointSlice),
    DaemonSet(Workload),
    Deployment(Workload),
    ClusterRole(Role),
    Role(Role),
}

#[derive(Deserialize)]
pub(super) struct Request {
    pub(super) metadata: Metadata,
    #[serde(default)]
    status: RequestStatus,
}

#[derive(Deserialize, Default)]
struct RequestStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

impl Request {
    /// Returns whether the request is neither approved nor denied.
    pub(super) fn is_open(&self) -> bool {
        self.status.conditions.is_empty()
    }
}

#[derive(Deserialize)]
pub(super) struct Webhooks {
    #[serde(default)]
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    name: String,
    failure_policy: Option<String>,
    client_config: ClientConfig,
}

#[derive(Deserialize)]
struct ClientConfig {
    service: Option<Service>,
}

/// A Service in its namespace.
#[derive(Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Webhooks {
    /// Returns the names of webhooks whose failure refuses requests, and their services.
    pub(super) fn needed(&self) -> impl Iterator<Item = (&str, &Service)> {
        self.webhooks.iter().filter_map(|webhook| {
            let refuses = webhook.failure_policy.as_deref() == Some("Fail");
            let service = webhook.client_config.service.as_ref()?;
            refuses.then_some((webhook.name.as_str(), service))
        })
    }
}

#[derive(Deserialize)]
pub(super) struct EndpointSlice {
    metadata: Metadata,
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(default)]
    conditions: EndpointConditions,
}

#[derive(Deserialize, Default)]
struct EndpointConditions {
    ready: Option<bool>,
}

impl EndpointSlice {
    /// Returns its service if an endpoint is ready.
    pub(super) fn ready(self) -> Option<Service> {
        let mut endpoints = self.endpoints.iter().flatten();
        let is_ready = endpoints.any(|endpoint| endpoint.conditions.ready == Some(true));
        let name = self.metadata.labels.get("kubernetes.io/service-name");
        Some(Service {
            name: name.filter(|_| is_ready)?.clone(),
            namespace: self.metadata.namespace,
        })
    }
}

#[derive(Deserialize)]
pub(super) struct Workload {
    pub(super) spec: Images,
}

#[derive(Deserialize)]
pub(super) struct Role {
    pub(super) metadata: Metadata,
    /// `null` for a role without rules.
    rules: Option<Vec<Rule>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Rule {
    resources: Vec<String>,
    verbs: Vec<String>,
}

impl Role {
    /// Returns whether it permits `get` and not `create` for streams of pods. A role can have the verbs in different rules.
    pub(super) fn lacks_create(&self) -> bool {
        let streams = ["pods/exec", "pods/attach", "pods/portforward"];
        let rules = self.rules.iter().flatten().filter(|rule| {
            let mut resources = rule.resources.iter();
            resources.any(|resource| streams.contains(&resource.as_str()))
        });
        let verbs: BTreeSet<&str> = rules
            .flat_map(|rule| rule.verbs.iter().map(String::as_str))
            .collect();
        verbs.contains("get") && !verbs.contains("create") && !verbs.contains("*")
    }
}
