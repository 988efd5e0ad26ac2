//! Plans the installation of a cluster. Each [`module`] turns configuration, facts and bundle into tasks.
//! This crate opens no connection.

mod applications;
pub mod backup;
pub mod completeness;
pub mod component_configs;
mod controller_file;
mod deployment;
mod dns;
mod error;
mod etcd;
mod etcd_certificates;
#[cfg(test)]
mod example;
pub mod expected;
#[cfg(test)]
mod fake_host;
mod former_files;
mod health;
mod hooks;
mod host_settings;
mod images;
mod inputs;
#[cfg(test)]
mod kinds;
mod kubernetes;
mod linking;
mod load_balancer;
mod manifest;
mod module;
mod modules;
mod network;
mod network_manager;
pub mod objects;
pub mod offers;
mod os;
mod payloads;
mod placeholders;
mod pod_leftovers;
mod post_install;
mod preparation;
mod registry;
pub mod relocation;
pub mod removal;
pub mod renewal;
pub mod rollback;
pub mod rotation;
mod rotation_inputs;
mod runtime;
mod runtime_classes;
mod service_user;
mod site_files;
pub mod upgrade;
pub mod upgrade_path;
pub mod version_skew;

use std::collections::{BTreeMap, BTreeSet};

use kubexm_config::cluster::Cluster;
use kubexm_engine::plan::{Plan, PlannedFile, RenderedFile, Task, TaskId};
use kubexm_types::HostName;

pub use applications::{
    ApplicationParts, ChartContent, Hidden, InstalledRelease, ManifestObject, MissingApplication,
    PlannedApplication, PlannedChange, Resources, Secrets, StoredRelease, absent_parts,
    application_parts, applications, applications_of_bundle, effective_values, encrypted_values,
    former as former_releases, missing_applications, releases, removal as application_removal,
    removed_namespaces, stored_release, unready_pods, values_of_charts,
};
pub use deployment::Deployment;
pub use error::DeployError;
pub use etcd::version as etcd_version;
pub use etcd_certificates::{EtcdCertificates, MemberCertificates};
pub use hooks::ResetHooks;
pub use inputs::{Certificates, GivenAuthorities, HostFacts, Inputs, SITE_CA};
pub use kubernetes::kubeconfig::{ApiServer, Kubeconfig};
pub use linking::CLibrary;
use modules::MODULES;
use payloads::{BIN, ETC, binary, journal, members};
pub use registry::{clients as registry_clients, has_login as registry_has_login};
pub use runtime::resume_pods;

/// Checks that the parts of a cluster work together.
///
/// # Errors
/// The container runtime cannot work in this cluster.
pub fn validate(cluster: &Cluster) -> Result<(), DeployError> {
    runtime::incompatibility(cluster)
        .map_or(Ok(()), |reason| Err(DeployError::Incompatible(reason)))
}

/// Plans the whole installation. The plan depends only on the inputs and on the files that the cluster
/// names.
///
/// # Errors
/// The cluster is not [valid](validate), or the bundle does not contain everything that it needs.
pub fn plan(inputs: &Inputs<'_>) -> Result<Deployment, DeployError> {
    validate(inputs.cluster)?;
    let missing = modules::missing(inputs);
    if !missing.is_empty() {
        return Err(DeployError::Incomplete(missing));
    }
    let nodes = inputs.cluster.nodes().into_iter();
    let mut deployment = Deployment::new(
        nodes
            .map(|host| (host.name.clone(), modules::node_images(inputs, host)))
            .collect(),
    );
    deployment.plan.tasks = modules::prepare(inputs)?;
    for module in MODULES {
        let tasks = module.tasks(inputs, &deployment)?;
        deployment.plan.tasks.extend(tasks);
    }
    let compared = former_files::tasks(inputs, &deployment.plan);
    deployment.plan.tasks.extend(compared);
    remove(&mut deployment.plan, |task| {
        inputs.absent.contains(&task.host)
    });
    hooks::insert(inputs, &mut deployment.plan)?;
    let conflicts = linking::conflicts(&deployment.plan, inputs.lock, &inputs.hosts);
    if conflicts.is_empty() {
        Ok(deployment)
    } else {
        Err(DeployError::Linking(conflicts))
    }
}

/// Removes tasks from a plan. The others do not wait for them.
fn remove(plan: &mut Plan, is_removed: impl Fn(&Task) -> bool) {
    let tasks = plan.tasks.iter();
    let removed: BTreeSet<TaskId> = tasks
        .filter(|task| is_removed(task))
        .map(Task::id)
        .collect();
    plan.tasks.retain(|task| !is_removed(task));
    for task in &mut plan.tasks {
        task.after.retain(|id| !removed.contains(id));
        task.after_end.retain(|id| !removed.contains(id));
    }
}

/// Returns the text of every file that the plan writes on hosts, for `kubexm render`.
pub fn rendered(plan: &Plan) -> BTreeMap<HostName, Vec<RenderedFile>> {
    let mut files: BTreeMap<HostName, Vec<RenderedFile>> = BTreeMap::new();
    for task in &plan.tasks {
        let planned = task.steps.iter().flat_map(|step| step.files());
        let texts = planned.filter_map(PlannedFile::rendered);
        files.entry(task.host.clone()).or_default().extend(texts);
    }
    files
}
