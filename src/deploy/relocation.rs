//! Plans what moves the registries of a cluster to other hosts while it runs.

use std::collections::BTreeSet;

use super::{DeployError, Inputs, os, registry, runtime};
use kubexm_engine::plan::{Plan, Task, TaskId, TaskName};
use kubexm_engine::seed::StoreImages;
use kubexm_types::HostName;

/// Lets a host use the registries of the cluster.
const FOLLOW: TaskName = TaskName::new("registry", "follow");

/// Plans registries on hosts, one after another. They get the images of `copied` before they start, and none of the bundle.
///
/// # Errors
/// The bundle does not contain the registry.
pub fn serve(
    inputs: &Inputs<'_>,
    hosts: &[HostName],
    copied: impl Fn() -> Option<StoreImages>,
) -> Result<Plan, DeployError> {
    let mut plan = Plan::default();
    let mut before: Option<TaskId> = None;
    for host in hosts {
        let mut task = registry::serve(inputs, host)?;
        task.after.clear();
        // Of the images of the bundle, users may have removed some.
        let own = task.steps.iter().position(|step| step.id() == IMAGES);
        let own = own.unwrap_or(task.steps.len());
        task.steps.retain(|step| step.id() != IMAGES);
        if let Some(images) = copied() {
            task.steps.insert(own, images.into());
        }
        let id = task.id();
        plan.tasks.push(task.after(before.replace(id)));
    }
    Ok(plan)
}

/// The step with the images of the bundle.
const IMAGES: &str = "registry images";

/// Plans the change of all hosts that are not absent to the registries of `inputs`, one after another: names, and mirrors of runtimes.
///
/// # Errors
/// The bundle does not contain the container runtime, or a file of the controller cannot be read.
pub fn follow(inputs: &Inputs<'_>) -> Result<Plan, DeployError> {
    let mut plan = Plan::default();
    let mut before: Option<TaskId> = None;
    let hosts = inputs.cluster.hosts.iter();
    for host in hosts.filter(|host| !inputs.absent.contains(&host.name)) {
        let mut task = FOLLOW.task(&host.name);
        if inputs.cluster.system.manage_hosts_file {
            task = task.step(os::hosts_block(inputs)?);
        }
        if inputs.cluster.is_node(&host.name) && inputs.host_facts(&host.name).is_node {
            let install = runtime::configured(inputs).install(inputs, host)?;
            task.steps.extend(install.steps);
        }
        let id = task.id();
        plan.tasks.push(task.after(before.replace(id)));
    }
    Ok(plan)
}

/// Returns the ids of the steps that belong to the registry of a host, for a reset of these alone.
///
/// # Errors
/// As [`serve`].
pub fn steps(inputs: &Inputs<'_>, host: &HostName) -> Result<BTreeSet<String>, DeployError> {
    let task: Task = registry::serve(inputs, host)?;
    Ok(task.steps.iter().map(|step| step.id()).collect())
}
