//! Where nodes get images from: a registry that kubexm runs, or one that is there.

mod serve;

use std::collections::BTreeSet;

use super::{DeployError, ETC, Inputs, id};
use crate::plan::{Task, TaskId};
use crate::seed;

/// File of the CA that signed the registry's certificate, on every node.
pub(super) fn ca_file() -> String {
    format!("{ETC}/registry-ca.crt")
}

/// Components that the bundle must have, by catalog name.
pub(super) fn components() -> &'static [&'static str] {
    &["registry"]
}

/// Brings registries up and fills them.
pub(super) fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let hosts = inputs.cluster.roles.registry.iter();
    hosts.map(|name| serve::serve(inputs, name)).collect()
}

/// Tasks after which images can be pulled.
pub(super) fn ready(inputs: &Inputs<'_>) -> Vec<TaskId> {
    let hosts = inputs.cluster.roles.registry.iter();
    hosts.map(|name| id("registry", "serve", name)).collect()
}

/// Where a runtime finds the images of one registry of the world outside.
pub(super) struct Mirror {
    /// The registry, as in `registry.k8s.io`; `None` for all that the bundle has no image of: they
    /// lead to an empty corner of the local one, so that nothing reaches outside.
    pub(super) source: Option<String>,
    /// `host:port` of the local registry.
    pub(super) address: String,
    /// What stands before repositories of that registry in the local one.
    pub(super) prefix: String,
}

/// Mirrors of all registries that the bundle has images of, and the one for all others.
pub(super) fn mirrors(inputs: &Inputs<'_>) -> Vec<Mirror> {
    let address = inputs.registry_address();
    let images = inputs.lock.images.iter();
    let sources: BTreeSet<&str> = images.map(|image| image.name.registry()).collect();
    let of_source = |source: &str| Mirror {
        source: Some(source.to_owned()),
        address: address.clone(),
        prefix: seed::prefix(source),
    };
    let mut mirrors: Vec<Mirror> = sources.into_iter().map(of_source).collect();
    mirrors.push(Mirror {
        source: None,
        address: address.clone(),
        prefix: "not-in-the-bundle".to_owned(),
    });
    mirrors
}
