//! The interface of container runtimes.

use crate::{DeployError, Inputs};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Task, TaskName};
use kubexm_scripts::Script;
use kubexm_scripts::undo::UndoScript;
use kubexm_types::{Message, Version};

/// Installs and starts a node's container runtime.
pub(crate) const INSTALL: TaskName = TaskName::new("runtime", "install");
/// Pulls a node's images.
pub(crate) const PULL: TaskName = TaskName::new("images", "pull");

/// The directory of CNI plugins on hosts.
pub(crate) const CNI_BIN: &str = "/opt/cni/bin";

/// A container runtime.
pub(crate) trait Runtime: Sync {
    /// Returns feature gates that a kubelet of this version requires to work with the runtime.
    fn kubelet_gates(&self, _kubernetes: &Version) -> &'static [(&'static str, bool)] {
        &[]
    }

    /// Returns why the runtime cannot work in a cluster, with a hint; `None` if it can.
    fn incompatibility(&self, _cluster: &Cluster) -> Option<Message> {
        None
    }

    /// Returns the task [`INSTALL`], which installs, configures and starts the runtime on a node. `images` are those that
    /// the node keeps.
    fn install(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        images: &[String],
    ) -> Result<Task, DeployError>;

    /// Adds to the task [`INSTALL`] of a node what happens to the pods of another version of the runtime.
    fn replace(&self, _: &Inputs<'_>, _: &HostSpec, _: &mut Task) -> Result<(), DeployError> {
        Ok(())
    }

    /// Returns the beginning of the runtime and its version that a node reports when its pods need not leave it for the
    /// runtime of the bundle, as in `containerd://2.3`; `None` if they never do.
    fn reported(&self, _: &Inputs<'_>, _: &HostSpec) -> Result<Option<String>, DeployError> {
        Ok(None)
    }

    /// Adds the files by which a running runtime pulls images from the cluster's registries to a task; `None` if the
    /// runtime reads them only when it starts.
    fn clients(&self, _: &Inputs<'_>, _: Task) -> Result<Option<Task>, DeployError> {
        Ok(None)
    }

    /// Returns the directory in which the runtime has the CA of the registries by their addresses; `None` if its files name
    /// the one of the node. The runtime reads the CA for each pull.
    fn registry_cas(&self) -> Option<&'static str> {
        None
    }

    /// Returns the scripts that check and pull images.
    fn images(&self) -> ImageScripts;

    /// Returns a script that stops what pods leave running after they have ended.
    fn after_pods(&self) -> Option<UndoScript> {
        None
    }

    /// Returns how the runtime receives the login for the local registry.
    fn login(&self) -> Login {
        Login::File
    }

    /// Returns which images a node pulls before a pod needs them.
    fn preload(&self) -> Preload {
        Preload::OwnImages
    }
}

/// Scripts for images. Their arguments are the address of the local registry and image names.
pub(crate) struct ImageScripts {
    /// Exits with 0 if every image is present. If the runtime can pin images, it also checks that the kubelet's
    /// garbage collection keeps them. Otherwise the script prints the name of an image.
    pub(crate) check: Script,
    /// Pulls the images from the local registry and pins them.
    pub(crate) pull: Script,
}

/// How a runtime receives the login for the local registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    /// The runtime reads a file.
    File,
    /// The script that pulls images reads a line `user:password` from its standard input.
    Input,
}

/// The images that a node pulls before a pod needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preload {
    /// The images of the modules on this node. The runtime pulls others on demand from the local registry.
    OwnImages,
    /// All images of the bundle. The runtime cannot pull other registries' images from the local registry.
    AllImages,
}
