//! The pod network. A plugin is one file here, with its templates, and a line in [`of`].

mod bridge;
mod calico;
mod cilium;
mod flannel;

use std::io::Read;

use super::module::Module;
use super::{DeployError, Deployment, Inputs, dns};
use kubexm_config::cluster::{HostSpec, NetworkPlugin};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_engine::steps::WriteFile;
use kubexm_render::RenderError;
use kubexm_types::{Digest, HostPath, ImageRef};

/// Asks which node has which pod subnet.
pub(crate) const SUBNETS: TaskName = TaskName::new("network", "subnets");
/// Configures a node's bridge and routes.
pub(crate) const BRIDGE: TaskName = TaskName::new("network", "bridge");

/// Calico's manifest has some 350 kB.
const LARGEST_MANIFEST: u64 = 16 * 1024 * 1024;

/// What the rest of a deployment asks of a network plugin.
pub(super) trait Plugin {
    /// Its images, out of what the bundle has.
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef>;

    /// What it needs and the bundle has not.
    fn lacking(&self, inputs: &Inputs<'_>) -> Vec<String>;

    /// Adds what a host needs before it is a node, such as how to take back what the plugin's pods
    /// will leave on it.
    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task)
    }

    /// Tasks that bring it up; the last one is what nodes wait for.
    fn tasks(&self, inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError>;
}

/// The cluster's plugin; `None` where it shall have none.
fn of(plugin: NetworkPlugin) -> Option<Box<dyn Plugin>> {
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
        of(inputs.cluster.network.plugin).map_or(Vec::new(), |plugin| plugin.images(inputs))
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        of(inputs.cluster.network.plugin).map_or(Vec::new(), |plugin| plugin.lacking(inputs))
    }

    fn prepare(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        match of(inputs.cluster.network.plugin) {
            Some(plugin) if inputs.cluster.is_node(&host.name) => {
                plugin.prepare(inputs, host, task)
            }
            _ => Ok(task),
        }
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        match (of(inputs.cluster.network.plugin), inputs.first()) {
            (Some(plugin), Some(first)) => plugin.tasks(inputs, first),
            _ => Ok(Vec::new()),
        }
    }
}

/// A task that applies a manifest from the first control plane, once names can be resolved.
fn manifest(name: &'static str, first: &HostSpec, text: String) -> Result<Task, DeployError> {
    let path = HostPath::parse(&format!("{}/{name}.yaml", super::ETC))?;
    let title = format!("Apply the pod network {name}");
    Ok(TaskName::new("network", name)
        .task(&first.name)
        .after([dns::configured(&first.name)])
        .step(WriteFile::new(path.clone(), text))
        .step(super::manifest::apply(name, title, path.as_str())))
}

/// A manifest that the bundle carries, as it came.
fn of_bundle(
    inputs: &Inputs<'_>,
    what: &'static str,
    digest: &Digest,
) -> Result<String, RenderError> {
    let blob = inputs.blobs.open(digest);
    let blob = blob.map_err(|error| RenderError::new(what, error))?;
    let mut text = String::new();
    let read = blob.take(LARGEST_MANIFEST).read_to_string(&mut text);
    read.map_err(|error| RenderError::new(what, error))?;
    Ok(text)
}

/// Returns the tasks after which pods have a network, out of all tasks.
pub(super) fn ready(tasks: &[Task]) -> Vec<TaskId> {
    let of_network = tasks.iter().filter(|task| task.module == "network");
    of_network.map(Task::id).collect()
}
