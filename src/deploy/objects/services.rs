//! Services, their endpoints, and webhooks that need them.

use serde::Deserialize;

use super::Metadata;

/// A Service in its namespace.
#[derive(Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    pub namespace: String,
    pub name: String,
}

impl Service {
    /// Returns `NAMESPACE/NAME`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// An EndpointSlice.
#[derive(Deserialize)]
pub struct EndpointSlice {
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
    pub fn ready(self) -> Option<Service> {
        let mut endpoints = self.endpoints.iter().flatten();
        let is_ready = endpoints.any(|endpoint| endpoint.conditions.ready == Some(true));
        let name = self.metadata.labels.get("kubernetes.io/service-name");
        Some(Service {
            name: name.filter(|_| is_ready)?.clone(),
            namespace: self.metadata.namespace,
        })
    }
}

/// A webhook of a configuration.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub name: String,
    failure_policy: Option<String>,
    client_config: ClientConfig,
}

#[derive(Deserialize)]
struct ClientConfig {
    service: Option<Service>,
}

impl Webhook {
    /// Returns the service without which the API server refuses requests.
    pub fn needed(&self) -> Option<&Service> {
        let refuses = self.failure_policy.as_deref() == Some("Fail");
        self.client_config.service.as_ref().filter(|_| refuses)
    }
}
