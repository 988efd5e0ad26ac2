//! Plans an upgrade by one version, on one node after another. It is the plan of an install with the new version in which
//! each node waits for the node before it, and in which pods leave a node before its programs change.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use super::kubernetes::drain::{DrainNode, Reason, ReturnNode};
use super::module::Module;
use super::network::PodNetwork;
use super::{DeployError, Deployment, Inputs, applications, kubernetes, load_balancer, runtime};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{Plan, Task, TaskId, TaskName};
use kubexm_types::{HostName, ImageRef};

pub use super::kubernetes::drain::Drain;

/// Upgrades a node with kubeadm.
const NODE: TaskName = TaskName::new("upgrade", "node");

/// What a hop depends on: an upgrade by one minor version, or within it.
pub struct HopInputs<'a> {
    /// As of an install. The cluster has the version after the hop.
    pub inputs: Inputs<'a>,
    /// Nodes that keep their version in this plan. Nothing of Kubernetes changes on them.
    pub held: BTreeSet<HostName>,
    /// How pods leave a node; `None` if no other node could run them.
    pub drain: Option<Drain>,
    /// The number of workers that change at the same time.
    pub max_unavailable: NonZeroUsize,
}

/// Returns the images of the pod network in the bundle.
pub fn network_images(inputs: &Inputs<'_>) -> Vec<ImageRef> {
    PodNetwork.images(inputs)
}

/// Plans a hop. Applications are not part of it: they are for the version after the last hop.
///
/// # Errors
/// See [`plan`](super::plan).
pub fn hop(given: &HopInputs<'_>) -> Result<Deployment, DeployError> {
    let inputs = &given.inputs;
    let mut deployment = super::plan(inputs)?;
    let Some(first) = inputs.first() else {
        return Ok(deployment);
    };
    let plan = &mut deployment.plan;
    super::remove(plan, applications::is_task);
    let dependents = dependents(inputs, plan);
    for host in inputs.nodes() {
        replace_runtime(inputs, plan, host)?;
    }
    // Nothing of Kubernetes changes on nodes that keep their version, unless an interrupted run has left them without a kubelet.
    super::remove(plan, |task| {
        let is_begun =
            task.id() == runtime::installed(&task.host) && inputs.host_facts(&task.host).pods_ended;
        given.held.contains(&task.host) && dependents.contains(&task.id()) && !is_begun
    });
    let earlier = plan
        .tasks
        .iter()
        .map(Task::id)
        .filter(|id| !dependents.contains(id));
    let mut before: Vec<TaskId> = earlier.collect();
    let mut nodes = inputs.nodes();
    nodes.retain(|host| !given.held.contains(&host.name));
    let (mut control_planes, workers): (Vec<&HostSpec>, Vec<&HostSpec>) = nodes
        .into_iter()
        .partition(|host| inputs.cluster.is_control_plane(&host.name));
    // The others follow the settings that it stores in the cluster. The sort keeps their order.
    control_planes.sort_by_key(|host| host.name != first.name);
    for host in control_planes {
        before = vec![gate(given, plan, first, host, before)?];
    }
    let mut returned: Vec<TaskId> = Vec::new();
    for host in workers {
        // The worker that began `max_unavailable` workers earlier has returned.
        let place = returned.len().checked_sub(given.max_unavailable.get());
        let of_worker = match place.and_then(|place| returned.get(place)) {
            Some(id) => vec![id.clone()],
            None => before.clone(),
        };
        returned.push(gate(given, plan, first, host, of_worker)?);
    }
    Ok(deployment)
}

/// Returns the tasks of a node that must wait until its pods have left it.
fn entries(host: &HostName) -> [TaskId; 3] {
    [
        runtime::installed(host),
        runtime::PULL.id(host),
        kubernetes::PROGRAMS.id(host),
    ]
}

/// Adds the steps by which the pods of a node end before a runtime of another version.
fn replace_runtime(
    inputs: &Inputs<'_>,
    plan: &mut Plan,
    host: &HostSpec,
) -> Result<(), DeployError> {
    let installed = runtime::installed(&host.name);
    for task in plan.tasks.iter_mut().filter(|task| task.id() == installed) {
        runtime::configured(inputs).replace(inputs, host, task)?;
    }
    // The kubelet starts again after the runtime: it must not be a newer one than the API server.
    wait_for(plan, &kubernetes::PROGRAMS.id(&host.name), &[installed]);
    Ok(())
}

/// Returns the tasks that change nodes, and all tasks that wait for them.
fn dependents(inputs: &Inputs<'_>, plan: &Plan) -> BTreeSet<TaskId> {
    let nodes = inputs.nodes();
    let mut found: BTreeSet<TaskId> = nodes.iter().flat_map(|host| entries(&host.name)).collect();
    let mut providers: BTreeMap<&str, Vec<TaskId>> = BTreeMap::new();
    for task in &plan.tasks {
        for value in &task.provides {
            providers.entry(value).or_default().push(task.id());
        }
    }
    loop {
        let waits = |task: &&Task| {
            let values = task
                .requires
                .iter()
                .filter_map(|value| providers.get(value));
            let mut tasks = task
                .after
                .iter()
                .chain(&task.after_end)
                .chain(values.flatten());
            tasks.any(|id| found.contains(id))
        };
        let tasks = plan.tasks.iter().filter(|task| !found.contains(&task.id()));
        let more: Vec<TaskId> = tasks.filter(waits).map(Task::id).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Lets a node change after the tasks `before`. Returns the task after which the next one may change.
fn gate(
    given: &HopInputs<'_>,
    plan: &mut Plan,
    first: &HostSpec,
    host: &HostSpec,
    before: Vec<TaskId>,
) -> Result<TaskId, DeployError> {
    let inputs = &given.inputs;
    let name = &host.name;
    let version = inputs.cluster.kubernetes.version.to_string();
    let begin = match given.drain {
        None => before,
        Some(drain) => {
            let reason = Reason::Change {
                version: version.clone(),
                runtime: runtime::configured(inputs).reported(inputs, host)?,
            };
            let step = DrainNode {
                node: name.clone(),
                drain,
                reason,
            };
            let task = Task::new("upgrade", &format!("drain-{name}"), &first.name);
            let task = task.after(before).step(step);
            let id = task.id();
            plan.tasks.push(task);
            vec![id]
        }
    };
    let leave = Task::new("upgrade", "endpoint", name).after(begin.clone());
    let leave = load_balancer::leaving(inputs.cluster, host, leave)?;
    let begin = match push_unless_empty(plan, leave) {
        Some(id) => vec![id],
        None => begin,
    };
    for id in entries(name) {
        wait_for(plan, &id, &begin);
    }
    let mut joined = kubernetes::joined(inputs, host);
    if kubernetes::is_kubeadm(inputs.cluster) {
        let programs = format!("install Kubernetes {version}");
        for task in plan.tasks.iter_mut().filter(|task| task.host == *name) {
            // The steps of kubeadm install each program when it is its turn.
            task.steps.retain(|step| step.id() != programs);
        }
        let task = NODE.task(name).after(entries(name));
        let task = kubernetes::kubeadm::upgraded(inputs, first, host, task)?;
        let task = load_balancer::returning(inputs.cluster, host, task)?;
        // kubeadm renews certificates in an upgrade.
        let task = load_balancer::renewed(inputs, host, task)?;
        wait_for(plan, &joined, &[task.id()]);
        plan.tasks.push(task);
    } else {
        let task = Task::new("upgrade", "endpoint-returns", name).after([joined.clone()]);
        let task = load_balancer::returning(inputs.cluster, host, task)?;
        joined = push_unless_empty(plan, task).unwrap_or(joined);
    }
    let step = ReturnNode {
        node: name.clone(),
        version,
    };
    let task = Task::new("upgrade", &format!("return-{name}"), &first.name);
    let task = task.after([joined]).step(step);
    let id = task.id();
    plan.tasks.push(task);
    Ok(id)
}

/// Adds a task, unless it has no step.
fn push_unless_empty(plan: &mut Plan, task: Task) -> Option<TaskId> {
    let id = (!task.steps.is_empty()).then(|| task.id())?;
    plan.tasks.push(task);
    Some(id)
}

/// Lets a task wait for others.
fn wait_for(plan: &mut Plan, id: &TaskId, others: &[TaskId]) {
    for task in plan.tasks.iter_mut().filter(|task| task.id() == *id) {
        task.after.extend_from_slice(others);
    }
}

#[cfg(test)]
mod tests;
