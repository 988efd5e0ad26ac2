//! Container runtimes. Each has one file here and one arm in [`by_kind`]; its sockets, units and directories are in
//! [`RuntimeProperties`](cluster::RuntimeProperties).

mod containerd;
mod cri;
mod cri_o;
mod docker;
mod isulad;
mod pods;

use std::collections::BTreeMap;

use super::module::{Component, Module};
use super::{DeployError, Deployment, Inputs, registry};
use kubexm_config::cluster::{Cluster, HostSpec, RuntimeKind};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_scripts::Script;
use kubexm_scripts::undo::UndoScript;
use kubexm_types::{HostName, Message, Version};

/// Installs and starts a node's container runtime.
pub(crate) const INSTALL: TaskName = TaskName::new("runtime", "install");

/// The container runtime of every node.
pub(super) struct Runtimes;

impl Module for Runtimes {
    fn components(&self, inputs: &Inputs<'_>) -> Vec<Component> {
        let names = inputs.cluster.runtime.kind.properties().components.iter();
        names.map(|name| Component::Newest(name)).collect()
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        let nodes = inputs.cluster.nodes().into_iter();
        nodes
            .map(|host| {
                let task = configured(inputs).install(inputs, host)?;
                Ok(task.after(registry::before_clients(inputs)))
            })
            .collect()
    }
}

/// The directory of CNI plugins on hosts.
pub(super) const CNI_BIN: &str = "/opt/cni/bin";

/// A container runtime.
pub(super) trait Runtime: Sync {
    /// Returns feature gates that a kubelet of this version requires to work with the runtime.
    fn kubelet_gates(&self, _kubernetes: &Version) -> &'static [(&'static str, bool)] {
        &[]
    }

    /// Returns why the runtime cannot work in a cluster, with a hint; `None` if it can.
    fn incompatibility(&self, _cluster: &Cluster) -> Option<Message> {
        None
    }

    /// Returns the task [`INSTALL`], which installs, configures and starts the runtime on a node.
    fn install(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError>;

    /// Adds to the task [`INSTALL`] of a node what happens to the pods of another version of the runtime.
    fn replace(&self, _: &Inputs<'_>, _: &HostSpec, _: &mut Task) -> Result<(), DeployError> {
        Ok(())
    }

    /// Returns the beginning of the runtime and its version that a node reports when its pods need not leave it for the
    /// runtime of the bundle, as in `containerd://2.3`; `None` if they never do.
    fn reported(&self, _: &Inputs<'_>, _: &HostSpec) -> Result<Option<String>, DeployError> {
        Ok(None)
    }

    /// Adds the files by which a running runtime pulls images from the cluster's registries to a task; `None` if the
    /// runtime reads them only when it starts.
    fn clients(&self, _: &Inputs<'_>, _: Task) -> Result<Option<Task>, DeployError> {
        Ok(None)
    }

    /// Returns the directory in which the runtime has the CA of the registries by their addresses; `None` if its files name
    /// the one of the node. The runtime reads the CA for each pull.
    fn registry_cas(&self) -> Option<&'static str> {
        None
    }

    /// Returns the scripts that check and pull images.
    fn images(&self) -> ImageScripts;

    /// Returns a script that stops what pods leave running after they have ended.
    fn after_pods(&self) -> Option<UndoScript> {
        None
    }

    /// Returns how the runtime receives the login for the local registry.
    fn login(&self) -> Login {
        Login::File
    }

    /// Returns which images a node pulls before a pod needs them.
    fn preload(&self) -> Preload {
        Preload::OwnImages
    }
}

/// Scripts for images. Their arguments are the address of the local registry and image names.
pub(super) struct ImageScripts {
    /// Exits with 0 if every image is present. If the runtime can pin images, it also checks that the kubelet's
    /// garbage collection keeps them. Otherwise the script prints the name of an image.
    pub(super) check: Script,
    /// Pulls the images from the local registry and pins them.
    pub(super) pull: Script,
}

/// How a runtime receives the login for the local registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Login {
    /// The runtime reads a file.
    File,
    /// The script that pulls images reads a line `user:password` from its standard input.
    Input,
}

/// The images that a node pulls before a pod needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preload {
    /// The images of the modules on this node. The runtime pulls others on demand from the local registry.
    OwnImages,
    /// All images of the bundle. The runtime cannot pull other registries' images from the local registry.
    AllImages,
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
