//! The registry of the nodes: one that kubexm runs, or an external one.

mod encoded_login;
pub(super) mod reach;
mod serve;
pub(super) mod site;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use encoded_login::encoded_login;
pub(super) use serve::{UNIT, renewed, serve};

use super::module::{Component, Module};
use super::rotation_inputs::RotationPhase;
use super::{DeployError, Deployment, ETC, Inputs, controller_file, runtime};
use kubexm_config::cluster::{Cluster, ExternalRegistry, HostSpec};
use kubexm_engine::plan::{Plan, Task, TaskId, TaskName};
use kubexm_engine::seed;
use kubexm_engine::steps::WriteFile;
use kubexm_types::HostPath;

/// Starts a registry with the images of the bundle.
pub(crate) const SERVE: TaskName = TaskName::new("registry", "serve");

/// Lets a running node pull from the registries.
const CLIENTS: TaskName = TaskName::new("registry", "clients");

/// Returns whether the registry of a cluster is one that kubexm runs, and requires a login.
pub fn has_login(cluster: &Cluster) -> bool {
    cluster.registry.external.is_none() && cluster.registry.login
}

/// Returns whether a registry that runs without a login will require one, or, with `false`, the opposite.
fn changes_to(inputs: &Inputs<'_>, login: bool) -> bool {
    let mut hosts = inputs.cluster.roles.registry.iter();
    inputs.cluster.registry.external.is_none()
        && inputs.cluster.registry.login == login
        && hosts.any(|name| inputs.host_facts(name).registry_login == Some(!login))
}

/// Plans the files by which running nodes pull images from the registries, on one node after another; `None` if their
/// runtime reads such files only when it starts. Needs no files of the bundle.
///
/// # Errors
/// A file of the controller that belongs on the hosts cannot be read.
pub fn clients(inputs: &Inputs<'_>) -> Result<Option<Plan>, DeployError> {
    let mut plan = Plan::default();
    let mut before = None;
    for node in inputs.nodes() {
        if !inputs.host_facts(&node.name).is_node {
            continue;
        }
        let task = CLIENTS.task(&node.name);
        let Some(task) = runtime::configured(inputs).clients(inputs, task)? else {
            return Ok(None);
        };
        let id = task.id();
        plan.tasks.push(task.after(before.replace(id)));
    }
    Ok(Some(plan))
}

/// Returns the tasks that write the login on nodes.
fn logins(inputs: &Inputs<'_>) -> Vec<TaskId> {
    let nodes = inputs.cluster.nodes().into_iter();
    nodes.map(|host| runtime::installed(&host.name)).collect()
}

/// Returns the tasks that must precede the change of a runtime: clients lose a login after the registry stops to
/// require it. In the opposite case, clients have it before.
pub(super) fn before_clients(inputs: &Inputs<'_>) -> Vec<TaskId> {
    if changes_to(inputs, false) {
        serving(inputs)
    } else {
        Vec::new()
    }
}

/// Returns the path of the registry's CA on every node.
pub(super) fn ca_file() -> String {
    format!("{ETC}/registry-ca.crt")
}

/// The registries that kubexm runs.
pub(super) struct Registries;

impl Module for Registries {
    fn components(&self, inputs: &Inputs<'_>) -> Vec<Component> {
        match inputs.cluster.registry.external {
            Some(_) => Vec::new(),
            None => vec![Component::Newest("registry")],
        }
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        let hosts = inputs.cluster.roles.registry.iter();
        let logins = if changes_to(inputs, true) {
            logins(inputs)
        } else {
            Vec::new()
        };
        let tasks = hosts.map(|name| Ok(serve::serve(inputs, name)?.after(logins.clone())));
        tasks.collect()
    }
}

/// Returns the file of the registry's CA for every node; `None` if the system's CAs are sufficient.
///
/// # Errors
/// The CA file of an external registry cannot be read.
pub(super) fn ca(inputs: &Inputs<'_>) -> Result<Option<WriteFile>, DeployError> {
    let path = HostPath::parse(&ca_file())?;
    Ok(ca_text(inputs)?.map(|text| WriteFile::new(path, text)))
}

/// Adds the steps of a host in a phase of the rotation of the registry's CA.
pub(super) fn rotated(
    inputs: &Inputs<'_>,
    phase: RotationPhase,
    host: &HostSpec,
    mut task: Task,
) -> Result<Task, DeployError> {
    if inputs.cluster.is_node(&host.name) {
        task = runtime::trusting(inputs, task)?;
    }
    let serves = inputs.cluster.roles.registry.contains(&host.name);
    match phase {
        RotationPhase::Switch if serves => renewed(inputs, &host.name, task),
        _ => Ok(task),
    }
}

/// Returns the text of that CA.
pub(super) fn ca_text(inputs: &Inputs<'_>) -> Result<Option<String>, DeployError> {
    match &inputs.cluster.registry.external {
        None => Ok(Some(inputs.certificates.ca.clone())),
        Some(ExternalRegistry { ca_file: None, .. }) => Ok(None),
        Some(ExternalRegistry {
            ca_file: Some(file),
            ..
        }) => controller_file::read(file).map(Some),
    }
}

/// Returns the value of the `Authorization` header for pulls; `None` without a login. Secret.
///
/// # Errors
/// The password file cannot be read.
pub(super) fn authorization(inputs: &Inputs<'_>) -> Result<Option<String>, DeployError> {
    let Some(external) = &inputs.cluster.registry.external else {
        let own = inputs.certificates.registry_login.as_ref();
        return Ok(own.map(|login| login.authorization.0.clone()));
    };
    let pair = external.login.as_ref().map(encoded_login).transpose()?;
    Ok(pair.map(|pair| format!("Basic {pair}")))
}

/// Returns the tasks after which all registries serve images.
pub(super) fn serving(inputs: &Inputs<'_>) -> Vec<TaskId> {
    let hosts = inputs.cluster.roles.registry.iter();
    hosts.map(|name| SERVE.id(name)).collect()
}

/// The registries that serve the images of a public registry to a runtime.
pub(super) struct Mirror {
    /// The public registry, as in `registry.k8s.io`. `None` stands for all registries without images in the
    /// bundle. Their mirror is a prefix without images, so that no pull leaves the site.
    pub(super) source: Option<String>,
    /// `host:port` of the registries, in the order in which the runtime tries them. Not empty.
    pub(super) endpoints: Vec<String>,
    /// The prefix of the repositories in these registries. It may be empty.
    pub(super) prefix: String,
}

impl Mirror {
    /// Returns [`Self::urls`] without scheme and API version, as in `node1:5000/registry.k8s.io`.
    pub(super) fn locations(&self) -> Vec<String> {
        let endpoints = self.endpoints.iter();
        let location = |endpoint: &String| match self.prefix.as_str() {
            "" => endpoint.clone(),
            prefix => format!("{endpoint}/{prefix}"),
        };
        endpoints.map(location).collect()
    }

    /// Returns the URLs of the repositories in all registries, as in
    /// `https://node1:5000/v2/registry.k8s.io`.
    pub(super) fn urls(&self) -> Vec<String> {
        let path = match self.prefix.as_str() {
            "" => "/v2".to_owned(),
            prefix => format!("/v2/{prefix}"),
        };
        let endpoints = self.endpoints.iter();
        endpoints
            .map(|endpoint| format!("https://{endpoint}{path}"))
            .collect()
    }
}

/// Returns `host:port` of the cluster's registries. Several registries are identified by their addresses,
/// because the host name resolves to only one.
pub(super) fn endpoints(cluster: &Cluster) -> Vec<String> {
    let registry = &cluster.registry;
    if let Some(external) = &registry.external {
        return vec![external.address.clone()];
    }
    let hosts = cluster.roles.registry.iter();
    let hosts: Vec<_> = hosts.filter_map(|name| cluster.host(name)).collect();
    match hosts.len() {
        0 | 1 => vec![format!("{}:{}", registry.host_name, registry.port)],
        _ => hosts
            .iter()
            .map(|host| SocketAddr::new(host.internal_address(), registry.port).to_string())
            .collect(),
    }
}

/// Returns the mirrors of all registries with images in the bundle, and the mirror of all others.
pub(super) fn mirrors(inputs: &Inputs<'_>) -> Vec<Mirror> {
    let endpoints = endpoints(inputs.cluster);
    let external = inputs.cluster.registry.external.as_ref();
    let local_prefix = |prefix: &str| match external {
        Some(external) => external.repository(prefix),
        None => prefix.to_owned(),
    };
    let images = inputs.lock.images.iter();
    let mut sources: BTreeSet<&str> = images.map(|image| image.name.registry()).collect();
    if external.is_none() {
        // Images that `kubexm registry add` has added.
        let hosts = inputs.cluster.roles.registry.iter();
        let facts = hosts.filter_map(|name| inputs.hosts.get(name));
        let added = facts.flat_map(|facts| &facts.registry_sources);
        sources.extend(added.map(String::as_str));
    }
    let mirror = |source: &str| Mirror {
        source: Some(source.to_owned()),
        endpoints: endpoints.clone(),
        prefix: local_prefix(&seed::prefix(source)),
    };
    let mut mirrors: Vec<Mirror> = sources.into_iter().map(mirror).collect();
    mirrors.push(Mirror {
        source: None,
        endpoints: endpoints.clone(),
        prefix: local_prefix("not-in-the-bundle"),
    });
    // Pods may also use other images of an external registry under their own names.
    mirrors.extend(external.map(|external| Mirror {
        source: Some(external.address.clone()),
        endpoints,
        prefix: String::new(),
    }));
    mirrors
}
