//! The objects that an upgrade or the removal of a node depends on.

use std::collections::BTreeSet;

use kubexm_deploy::objects::{
    Budget, EndpointSlice, Images, Metadata, Node, PersistentVolume, Pod, Request, Service, Webhook,
};
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
pub(super) struct Webhooks {
    #[serde(default)]
    webhooks: Vec<Webhook>,
}

impl Webhooks {
    /// Returns the names of webhooks whose failure refuses requests, and their services.
    pub(super) fn needed(&self) -> impl Iterator<Item = (&str, &Service)> {
        let all = self.webhooks.iter();
        all.filter_map(|webhook| Some((webhook.name.as_str(), webhook.needed()?)))
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
