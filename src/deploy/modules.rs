//! The list of modules, and what all of them need together.

use std::collections::BTreeSet;

use super::module::{Component, Module};
use super::{
    DeployError, Inputs, applications, dns, etcd, health, images, kubernetes, load_balancer,
    network, post_install, preparation, registry, runtime, runtime_classes,
};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_types::ImageRef;

/// All modules, in the order in which kubexm plans their tasks. A task may wait for tasks of any module.
pub(super) const MODULES: &[&dyn Module] = &[
    &registry::Registries,
    &etcd::Members,
    &load_balancer::LoadBalancers,
    &runtime::Runtimes,
    &runtime_classes::RuntimeClasses,
    &images::Pulls,
    &kubernetes::Nodes,
    &network::PodNetwork,
    &dns::Dns,
    &post_install::PostInstall,
    &health::Health,
    &applications::Applications,
];

/// Returns the tasks that prepare the hosts for all modules.
pub(super) fn prepare(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let hosts = inputs.cluster.hosts.iter();
    hosts
        .map(|host| {
            let mut modules = MODULES.iter();
            modules.try_fold(preparation::prepare(inputs, host)?, |task, module| {
                module.prepare(inputs, host, task)
            })
        })
        .collect()
}

/// Returns the images of the whole cluster.
pub(super) fn cluster_images(inputs: &Inputs<'_>) -> BTreeSet<ImageRef> {
    let modules = MODULES.iter();
    modules.flat_map(|module| module.images(inputs)).collect()
}

/// Returns the images that a node pulls before a pod needs them.
pub(super) fn node_images(inputs: &Inputs<'_>, host: &HostSpec) -> BTreeSet<ImageRef> {
    let modules = MODULES.iter();
    modules
        .flat_map(|module| module.images_on(inputs, host))
        .collect()
}

/// Returns what the cluster needs and the bundle does not contain, sorted, for the user.
pub(super) fn missing(inputs: &Inputs<'_>) -> Vec<String> {
    let lock = inputs.lock;
    let version = &inputs.cluster.kubernetes.version;
    if !lock.kubernetes.contains(version) {
        let has: Vec<String> = lock.kubernetes.iter().map(ToString::to_string).collect();
        return vec![format!(
            "Kubernetes {version} (the bundle has {})",
            has.join(", ")
        )];
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
        for image in cluster_images(inputs) {
            let has = lock
                .image(&image)
                .is_some_and(|i| i.arches().any(|has| has == arch));
            if !has {
                missing.insert(format!("image {image} for {arch}"));
            }
        }
    }
    missing.extend(MODULES.iter().flat_map(|module| module.missing(inputs)));
    missing.into_iter().collect()
}
