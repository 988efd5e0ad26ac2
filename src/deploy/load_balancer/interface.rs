//! The interface of load balancers, and their images.

use crate::{DeployError, Inputs};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_types::{HostName, ImageRef};

/// Starts a load balancer on a host.
pub(crate) const SERVE: TaskName = TaskName::new("load-balancer", "serve");

/// A load balancer.
pub(crate) trait Balancer {
    /// Returns whether the load balancer has programs on a host.
    fn runs_on(&self, cluster: &Cluster, host: &HostName) -> bool;

    /// Returns the OS packages that its hosts must have.
    fn packages(&self, _: PackageFormat) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the services of those packages. kubexm masks them.
    fn services(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns its systemd units.
    fn units(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the image of its pods.
    fn image(&self) -> Option<Image> {
        None
    }

    /// Returns the tasks before and after the first control plane.
    fn tasks(&self, inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError>;

    /// Returns the tasks that must succeed before a host becomes a node. Its programs then use the endpoint.
    fn tasks_before_join(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Vec<TaskId>;

    /// Returns whether the endpoint answers only after the kubelet of the first control plane runs a static pod. The
    /// script of `kubeadm init` writes its manifest, because the cleanup of a failed run removes it.
    fn is_static_pod(&self) -> bool {
        false
    }

    /// Returns the names of its static pods on a host that [runs](Self::runs_on) it.
    fn static_pods(&self, _: &Cluster) -> Vec<String> {
        Vec::new()
    }

    /// Adds the step after which the endpoint does not depend on the API server of one control plane, which restarts next.
    fn leaving(&self, _: &Cluster, task: Task) -> Result<Task, DeployError> {
        Ok(task)
    }

    /// Adds the step that ends what [`leaving`](Self::leaving) began, after the API server has restarted.
    fn returning(&self, _: &Cluster, task: Task) -> Result<Task, DeployError> {
        Ok(task)
    }

    /// Adds the steps after which its pods use the present kubeconfig of their host.
    fn renewed(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task)
    }

    /// Adds the steps that must run immediately after a host has become a node.
    fn after_join(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task)
    }
}

/// The names of an image in the catalog and in its registry.
pub(crate) struct Image {
    pub(crate) component: &'static str,
    pub(crate) repository: &'static str,
}

/// Returns an image of the bundle in any version.
pub(crate) fn bundled_image(inputs: &Inputs<'_>, image: &Image) -> Option<ImageRef> {
    inputs.image_of(image.repository)
}

/// Returns an image of the bundle.
///
/// # Errors
/// The bundle does not contain it.
pub(crate) fn required_image(inputs: &Inputs<'_>, image: &Image) -> Result<ImageRef, DeployError> {
    bundled_image(inputs, image).ok_or_else(|| DeployError::Incomplete(vec![missing_image(image)]))
}

/// Returns that an image is missing, for the user.
pub(crate) fn missing_image(image: &Image) -> String {
    let component = image.component;
    format!("the image of {component} (spec.loadBalancer.{component} of the manifest)")
}
