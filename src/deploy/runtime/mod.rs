//! Container runtimes: one file each, with its templates, and one arm of [`of`].

mod containerd;
mod cri;
mod cri_o;
mod docker;
mod isulad;

use std::collections::BTreeMap;

use super::module::{Component, Module};
use super::{DeployError, Deployment, Inputs};
use kubexm_config::cluster;
use kubexm_config::cluster::{Cluster, HostSpec, RuntimeKind};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_scripts::Script;
use kubexm_types::{HostName, Version};

/// Installs and starts a node's container runtime.
pub(crate) const INSTALL: TaskName = TaskName::new("runtime", "install");

/// The container runtime of every node.
pub(super) struct Runtimes;

impl Module for Runtimes {
    fn components(&self, inputs: &Inputs<'_>) -> Vec<Component> {
        let names = of_cluster(inputs).components().iter();
        names.map(|name| Component::Newest(name)).collect()
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        let nodes = inputs.cluster.nodes().into_iter();
        nodes
            .map(|host| of_cluster(inputs).install(inputs, host))
            .collect()
    }
}

/// Folder of CNI plugins on hosts.
pub(super) const CNI_BIN: &str = "/opt/cni/bin";

/// What the rest of a deployment asks of a container runtime.
pub(super) trait Runtime: Sync {
    /// Components that the bundle must have, by catalog name.
    fn components(&self) -> &'static [&'static str];

    /// Address of its CRI socket, as in `unix:///run/…`.
    fn socket(&self) -> &'static str;

    /// Its unit, which the kubelet starts after.
    fn unit(&self) -> &'static str;

    /// The folder that images and containers grow in, wherever the user's settings put it.
    fn data_dir<'a>(&self, settings: &'a cluster::Runtime) -> &'a str;

    /// Feature gates that a kubelet of this version must have set to work with it.
    fn kubelet_gates(&self, _kubernetes: &Version) -> &'static [(&'static str, bool)] {
        &[]
    }

    /// What in a cluster it cannot work with, and what to do then; `None` where it can.
    fn refuses(&self, _cluster: &Cluster) -> Option<&'static str> {
        None
    }

    /// Installs, configures and starts it on a node; the task's name is that of [`installed`].
    fn install(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError>;

    /// How images are held on a node.
    fn images(&self) -> ImageScripts;

    /// Removes what pods leave behind when they have ended.
    fn after_pods(&self) -> Option<Script> {
        None
    }

    /// Which images a node holds from the first day on.
    fn holds(&self) -> Holds {
        Holds::WhatItRuns
    }
}

/// Scripts for images. Their arguments are the address of the local registry and the names of images.
pub(super) struct ImageScripts {
    /// Ends with 0 if every image is there and, if the runtime can pin images, safe from the kubelet's
    /// garbage collection; else prints one that is not.
    pub(super) check: Script,
    /// Pulls them from the local registry and pins them.
    pub(super) pull: Script,
}

/// Which images are brought to a node before a pod asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// Those that it runs whatever is scheduled to it; others come from the local registry.
    WhatItRuns,
    /// All: its runtime does not look for another registry's images in the local one.
    Everything,
}

/// The runtime of a kind.
pub(super) fn of(kind: RuntimeKind) -> &'static dyn Runtime {
    match kind {
        RuntimeKind::Containerd => &containerd::Containerd,
        RuntimeKind::CriO => &cri_o::CriO,
        RuntimeKind::Docker => &docker::Docker,
        RuntimeKind::Isulad => &isulad::Isulad,
    }
}

/// What a cluster asks of its runtime that this cannot do, and what to do then.
pub(super) fn refusal(cluster: &Cluster) -> Option<&'static str> {
    of(cluster.runtime.kind).refuses(cluster)
}

/// The cluster's runtime.
pub(super) fn of_cluster(inputs: &Inputs<'_>) -> &'static dyn Runtime {
    of(inputs.cluster.runtime.kind)
}

/// The folder that images and containers grow in on the cluster's nodes.
pub fn data_dir(cluster: &Cluster) -> &str {
    of(cluster.runtime.kind).data_dir(&cluster.runtime)
}

/// The kubelet's feature gates: those that the runtime needs, and the user's over them.
pub(super) fn kubelet_gates(cluster: &Cluster) -> BTreeMap<String, bool> {
    let needed = of(cluster.runtime.kind).kubelet_gates(&cluster.kubernetes.version);
    let needed = needed.iter().map(|(name, on)| ((*name).to_owned(), *on));
    needed
        .chain(cluster.kubernetes.kubelet.feature_gates.clone())
        .collect()
}

/// The task after which a node's runtime answers.
pub(super) fn installed(host: &HostName) -> TaskId {
    INSTALL.id(host)
}

/// A path in the user's settings, by the names that lead to it; else the runtime's own.
fn setting<'a>(settings: &'a cluster::Runtime, names: &[&str], default: &'static str) -> &'a str {
    let mut value = &settings.extra_config;
    for name in names {
        value = &value[name];
    }
    value.as_str().unwrap_or(default)
}
