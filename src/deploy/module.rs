//! The interface of modules.

use super::{DeployError, Deployment, Inputs};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_types::ImageRef;

/// A part of a cluster: its content in the bundle, and its tasks.
pub(super) trait Module: Sync {
    /// Returns the files that the bundle must contain for each architecture of the hosts.
    fn components(&self, _: &Inputs<'_>) -> Vec<Component> {
        Vec::new()
    }

    /// Returns the images that the module runs somewhere in the cluster.
    fn images(&self, _: &Inputs<'_>) -> Vec<ImageRef> {
        Vec::new()
    }

    /// Returns the images that this node pulls before a pod needs them.
    fn images_on(&self, inputs: &Inputs<'_>, _: &HostSpec) -> Vec<ImageRef> {
        self.images(inputs)
    }

    /// Returns other content that the bundle does not have, for the user.
    fn missing(&self, _: &Inputs<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Adds the module's steps to the task that prepares a host.
    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task)
    }

    /// Returns the module's tasks. `deployment` contains the tasks of the modules before it in the list.
    fn tasks(&self, inputs: &Inputs<'_>, deployment: &Deployment)
    -> Result<Vec<Task>, DeployError>;
}

/// A file of the bundle, by its catalog name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Component {
    /// In the cluster's Kubernetes version.
    OfKubernetes(&'static str),
    /// In the newest version in the bundle.
    Newest(&'static str),
}
