//! The modules of a cluster: the one list of them, and what each does.

use std::collections::BTreeSet;

use super::{DeployError, Deployment, Inputs};
use super::{dns, etcd, finish, images, kubernetes, load_balancer, network, os, registry, runtime};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_types::ImageRef;

/// All modules, in the order in which their tasks are planned. Tasks of a module may wait for tasks of
/// any other.
pub(super) const MODULES: &[&dyn Module] = &[
    &os::OperatingSystem,
    &registry::Registries,
    &etcd::Members,
    &load_balancer::LoadBalancers,
    &runtime::Runtimes,
    &images::Pulls,
    &kubernetes::Nodes,
    &network::PodNetwork,
    &dns::Dns,
    &finish::Finish,
];

/// A part of a cluster: what it needs of the bundle, and its tasks.
pub(super) trait Module: Sync {
    /// Returns the files that the bundle must have for each architecture of the hosts.
    fn components(&self, _: &Inputs<'_>) -> Vec<Component> {
        Vec::new()
    }

    /// Returns the images that the module runs somewhere in the cluster.
    fn images(&self, _: &Inputs<'_>) -> Vec<ImageRef> {
        Vec::new()
    }

    /// Returns the images that this node pulls before a pod needs them.
    fn images_of(&self, inputs: &Inputs<'_>, _: &HostSpec) -> Vec<ImageRef> {
        self.images(inputs)
    }

    /// Returns what else the bundle must have and does not have, for the user.
    fn missing(&self, _: &Inputs<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Adds to the task that prepares a host what the module needs there.
    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task)
    }

    /// Returns the module's tasks. `deployment` has the tasks of the modules before it in the list.
    fn tasks(&self, inputs: &Inputs<'_>, deployment: &Deployment)
    -> Result<Vec<Task>, DeployError>;
}

/// A file of the bundle, by its name in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Component {
    /// In the cluster's Kubernetes version.
    OfKubernetes(&'static str),
    /// In the newest version that the bundle has.
    Newest(&'static str),
}

/// Returns the images of the whole cluster.
pub(super) fn images_of_cluster(inputs: &Inputs<'_>) -> BTreeSet<ImageRef> {
    let modules = MODULES.iter();
    modules.flat_map(|module| module.images(inputs)).collect()
}

/// Returns the images that a node pulls before a pod needs them.
pub(super) fn images_of_node(inputs: &Inputs<'_>, host: &HostSpec) -> BTreeSet<ImageRef> {
    let modules = MODULES.iter();
    modules
        .flat_map(|module| module.images_of(inputs, host))
        .collect()
}

/// Returns what the cluster needs and the bundle does not have, for the user, sorted.
pub(super) fn missing(inputs: &Inputs<'_>) -> Vec<String> {
    let lock = inputs.lock;
    let version = &inputs.cluster.kubernetes.version;
    if !lock.kubernetes.contains(version) {
        let has: Vec<String> = lock.kubernetes.iter().map(ToString::to_string).collect();
        return vec![format!("Kubernetes {version} (it has {})", has.join(", "))];
    }
    let mut missing = BTreeSet::new();
    for arch in inputs.arches() {
        for component in MODULES.iter().flat_map(|module| module.components(inputs)) {
            let (found, title) = match component {
                Component::OfKubernetes(name) => (
                    lock.file_version(name, version, arch),
                    format!("{name} {version} for {arch}"),
                ),
                Component::Newest(name) => (lock.file(name, arch), format!("{name} for {arch}")),
            };
            if found.is_none() {
                missing.insert(title);
            }
        }
        for image in images_of_cluster(inputs) {
            let has = lock
                .image(&image)
                .is_some_and(|i| i.platforms.iter().any(|p| p.arch == arch));
            if !has {
                missing.insert(format!("image {image} for {arch}"));
            }
        }
    }
    missing.extend(MODULES.iter().flat_map(|module| module.missing(inputs)));
    missing.into_iter().collect()
}
