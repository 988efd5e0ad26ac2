//! The pod network. Each plugin has one file here and one arm in [`configured`]; what is known of it on hosts is in
//! [`PluginProperties`](kubexm_config::cluster::PluginProperties).

mod bridge;
mod calico;
mod cilium;
mod flannel;
mod restored;
mod subnets;

pub(super) use self::restored::follow_subnets;

use super::module::Module;
use super::{DeployError, Deployment, Inputs, dns};
use kubexm_config::cluster::{HostSpec, NetworkPlugin};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_types::ImageRef;

/// Reads the pod subnet of each node.
pub(crate) const SUBNETS: TaskName = TaskName::new("network", "subnets");
/// Configures a node's bridge and routes.
pub(crate) const BRIDGE: TaskName = TaskName::new("network", "bridge");

/// A network plugin.
pub(super) trait Plugin {
    /// Returns its images in the bundle.
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef>;

    /// Returns what it needs and the bundle does not contain.
    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String>;

    /// Adds steps for a host before it becomes a node, such as undo records for leftovers of the plugin's
    /// pods.
    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task)
    }

    /// Returns the tasks that install it.
    fn tasks(&self, inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError>;
}

/// Returns the cluster's plugin; `None` if kubexm installs none.
fn configured(plugin: NetworkPlugin) -> Option<Box<dyn Plugin>> {
    match plugin {
        NetworkPlugin::None => None,
        NetworkPlugin::Flannel(backend) => Some(Box::new(flannel::Flannel { backend })),
        NetworkPlugin::Bridge => Some(Box::new(bridge::Bridge)),
        NetworkPlugin::Calico(calico) => Some(Box::new(calico)),
        NetworkPlugin::Cilium(cilium) => Some(Box::new(cilium)),
    }
}

/// The pod network.
pub(super) struct PodNetwork;

impl Module for PodNetwork {
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef> {
        configured(inputs.cluster.network.plugin).map_or(Vec::new(), |plugin| plugin.images(inputs))
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        configured(inputs.cluster.network.plugin)
            .map_or(Vec::new(), |plugin| plugin.missing(inputs))
    }

    fn prepare(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        match configured(inputs.cluster.network.plugin) {
            Some(plugin) if inputs.cluster.is_node(&host.name) => {
                plugin.prepare(inputs, host, task)
            }
            _ => Ok(task),
        }
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        match (configured(inputs.cluster.network.plugin), inputs.first()) {
            (Some(plugin), Some(first)) => plugin.tasks(inputs, first),
            _ => Ok(Vec::new()),
        }
    }
}

/// Returns a task that applies a manifest from the first control plane after DNS is configured.
fn manifest(name: &'static str, first: &HostSpec, text: String) -> Result<Task, DeployError> {
    let task = TaskName::new("network", name)
        .task(&first.name)
        .after([dns::configured(&first.name)]);
    let title = format!("Apply the pod network {name}");
    super::manifest::written(task, name, title, text)
}

/// Returns the tasks of the pod network among all tasks.
pub(super) fn tasks_in(tasks: &[Task]) -> Vec<TaskId> {
    let tasks = tasks.iter().filter(|task| task.module == "network");
    tasks.map(Task::id).collect()
}
