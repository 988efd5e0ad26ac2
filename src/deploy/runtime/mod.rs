//! Container runtimes. Each has one file here and one arm in [`by_kind`]; its sockets, units and directories are in
//! [`RuntimeProperties`](cluster::RuntimeProperties).

mod containerd;
mod cri;
mod cri_o;
mod docker;
mod interface;
mod isulad;
mod pods;

use std::collections::BTreeMap;

use interface::CNI_BIN;
pub(super) use interface::{INSTALL, ImageScripts, Login, PULL, Preload, Runtime};
pub use pods::resume as resume_pods;

use super::module::{Component, Module};
use super::{DeployError, Deployment, Inputs, registry};
use kubexm_config::cluster::{Cluster, HostSpec, RuntimeKind};
use kubexm_engine::plan::{Task, TaskId};
use kubexm_types::{HostName, ImageRef, Message};

/// The container runtime of every node.
pub(super) struct Runtimes;

impl Module for Runtimes {
    fn components(&self, inputs: &Inputs<'_>) -> Vec<Component> {
        let names = inputs.cluster.runtime.kind.properties().components.iter();
        names.map(|name| Component::Newest(name)).collect()
    }

    fn tasks(
        &self,
        inputs: &Inputs<'_>,
        deployment: &Deployment,
    ) -> Result<Vec<Task>, DeployError> {
        let nodes = inputs.cluster.nodes().into_iter();
        nodes
            .map(|host| {
                let task = configured(inputs).install(
                    inputs,
                    host,
                    &preloaded(inputs, deployment, host),
                )?;
                Ok(task.after(registry::before_clients(inputs)))
            })
            .collect()
    }
}

/// Returns the runtime of a kind.
pub(super) fn by_kind(kind: RuntimeKind) -> &'static dyn Runtime {
    match kind {
        RuntimeKind::Containerd => &containerd::Containerd,
        RuntimeKind::CriO => &cri_o::CriO,
        RuntimeKind::Docker => &docker::Docker,
        RuntimeKind::Isulad => &isulad::Isulad,
    }
}

/// Returns why the cluster's runtime cannot work in it, with a hint; `None` if it can.
pub(super) fn incompatibility(cluster: &Cluster) -> Option<Message> {
    by_kind(cluster.runtime.kind).incompatibility(cluster)
}

/// Returns the runtime of the cluster.
pub(super) fn configured(inputs: &Inputs<'_>) -> &'static dyn Runtime {
    by_kind(inputs.cluster.runtime.kind)
}

/// Returns the names of the images that a node pulls before a pod needs them.
pub(super) fn preloaded(
    inputs: &Inputs<'_>,
    deployment: &Deployment,
    host: &HostSpec,
) -> Vec<String> {
    if configured(inputs).preload() == Preload::AllImages {
        let images = inputs.lock.images.iter().filter(|i| !i.is_artifact());
        let named = images.map(|image| &image.name);
        let tagged = named.filter(|name| name.tag().is_some());
        return tagged.map(ImageRef::to_string).collect();
    }
    let images = deployment.node_images.get(&host.name);
    images
        .into_iter()
        .flatten()
        .map(ImageRef::to_string)
        .collect()
}

/// Adds the steps after which the runtime of a node trusts the CAs of the registry that kubexm runs.
pub(super) fn trusting(inputs: &Inputs<'_>, task: Task) -> Result<Task, DeployError> {
    match configured(inputs).registry_cas() {
        Some(certs_d) => cri::registry_ca(task, inputs, certs_d),
        None => Ok(registry::ca(inputs)?.into_iter().fold(task, Task::step)),
    }
}

/// Returns the kubelet's feature gates: those that the runtime requires, overridden by those of the user.
pub(super) fn kubelet_gates(cluster: &Cluster) -> BTreeMap<String, bool> {
    let needed = by_kind(cluster.runtime.kind).kubelet_gates(&cluster.kubernetes.version);
    let needed = needed.iter().map(|(name, on)| ((*name).to_owned(), *on));
    needed
        .chain(cluster.kubernetes.kubelet.feature_gates.clone())
        .collect()
}

/// Returns the task that starts the runtime of a node.
pub(super) fn installed(host: &HostName) -> TaskId {
    INSTALL.id(host)
}
