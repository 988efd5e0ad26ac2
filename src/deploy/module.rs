//! What each module of a cluster does.

use super::{DeployError, Deployment, Inputs};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_types::ImageRef;

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
