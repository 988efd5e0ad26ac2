//! The pod network. A plugin is one file here, with its templates, and a line in [`of`].

mod flannel;

use super::{DeployError, Inputs, KUBECTL, dns};
use crate::plan::{Task, TaskId};
use crate::spec::cluster::{HostSpec, NetworkPlugin};
use crate::spec::{HostPath, ImageRef};
use crate::steps::{RunScript, WriteFile};

/// What the rest of a deployment asks of a network plugin.
pub(super) trait Plugin {
    /// Its images, out of what the bundle has.
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef>;

    /// What it needs and the bundle has not.
    fn lacking(&self, inputs: &Inputs<'_>) -> Vec<String>;

    /// Tasks that bring it up; the last one is what nodes wait for.
    fn tasks(&self, inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError>;
}

/// The cluster's plugin; `None` where it shall have none.
fn of(plugin: NetworkPlugin) -> Result<Option<Box<dyn Plugin>>, DeployError> {
    match plugin {
        NetworkPlugin::None => Ok(None),
        NetworkPlugin::Flannel(backend) => Ok(Some(Box::new(flannel::Flannel { backend }))),
        NetworkPlugin::Calico | NetworkPlugin::Cilium | NetworkPlugin::Bridge => {
            Err(DeployError::Unsupported(plugin.name()))
        }
    }
}

/// Images of the cluster's network plugin, out of what the bundle has.
pub(super) fn images(inputs: &Inputs<'_>) -> Vec<ImageRef> {
    match of(inputs.cluster.network.plugin) {
        Ok(Some(plugin)) => plugin.images(inputs),
        _ => Vec::new(),
    }
}

/// What the plugin needs and the bundle has not.
pub(super) fn lacking(inputs: &Inputs<'_>) -> Vec<String> {
    match of(inputs.cluster.network.plugin) {
        Ok(Some(plugin)) => plugin.lacking(inputs),
        _ => Vec::new(),
    }
}

/// Brings the plugin up.
pub(super) fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    match (of(inputs.cluster.network.plugin)?, inputs.first()) {
        (Some(plugin), Some(first)) => plugin.tasks(inputs, first),
        _ => Ok(Vec::new()),
    }
}

/// A task that applies a manifest from the first control plane, once names can be resolved.
fn manifest(name: &'static str, first: &HostSpec, text: String) -> Result<Task, DeployError> {
    let path = HostPath::parse(&format!("{}/{name}.yaml", super::ETC))?;
    let kubectl = KUBECTL;
    let step = RunScript::new(
        name,
        format!("Apply the pod network {name}"),
        &format!("{kubectl} diff -f \"$1\" >/dev/null 2>&1 || {{ echo differs; exit 1; }}"),
        &format!("{kubectl} apply -f \"$1\" >/dev/null"),
    );
    Ok(Task::new("network", name, &first.name)
        .after([dns::configured(&first.name)])
        .step(WriteFile::new(path.clone(), text))
        .step(step.arguments([path.as_str()])))
}

/// Tasks after which pods have a network; none where the user brings his own.
pub(super) fn ready(tasks: &[Task]) -> Vec<TaskId> {
    let of_network = tasks.iter().filter(|task| task.module == "network");
    of_network.map(Task::id).collect()
}
