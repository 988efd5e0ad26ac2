//! Load balancers for the API servers: proxies on every node ([`local`]), programs that hold the
//! endpoint's address on hosts of the role `loadbalancer` ([`address_holder`]), and static pods of the
//! control planes that do so ([`control_plane_pod`]).

mod address;
mod haproxy;
mod keepalived;
mod kube_vip;
mod local;
mod nginx;
mod packages;
mod proxy;
mod static_pod;
#[cfg(test)]
mod tests;

use proxy::Proxy;

use super::module::Module;
use super::{DeployError, Deployment, Inputs};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::{
    AddressHolder, Cluster, ControlPlanePod, HostSpec, LoadBalancer, LocalProxy, ProxyRun,
};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_types::{HostName, ImageRef};

pub(super) use packages::{is_balancers, without_services};

/// Starts a load balancer on a host.
pub(crate) const SERVE: TaskName = TaskName::new("load-balancer", "serve");
/// Fetches the cluster's CA for the proxies.
pub(crate) const AUTHORITY: TaskName = TaskName::new("load-balancer", "authority");
/// Makes a proxy verify API servers with the cluster's CA.
pub(crate) const VERIFY: TaskName = TaskName::new("load-balancer", "verify");

/// What the rest of a deployment asks of a load balancer.
trait Balancer {
    /// Whether it has programs on a host.
    fn runs_on(&self, cluster: &Cluster, host: &HostName) -> bool;

    /// OS packages that a host which it runs on must have.
    fn packages(&self, _: PackageFormat) -> Vec<&'static str> {
        Vec::new()
    }

    /// Services that come with those packages, and that never start.
    fn services(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The image of its pods.
    fn image(&self) -> Option<Image> {
        None
    }

    /// Its tasks: those before the first control plane, and what can be done only after it.
    fn tasks(&self, inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError>;

    /// Tasks after which a host may become a node: from there on its programs use the endpoint.
    fn ready(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Vec<TaskId>;

    /// Whether the kubelet must see static pods before `kubeadm init`. No step can show them: kubeadm
    /// cleans up after a failed try and removes them.
    fn has_pod_before_init(&self) -> bool {
        false
    }

    /// Adds what can be done only once a host is a node, and must be before anything else is.
    fn settle(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task)
    }
}

/// An image, by its names in the catalog and in its registry.
struct Image {
    component: &'static str,
    repository: &'static str,
}

/// The cluster's load balancer; `None` where kubexm has nothing to do for it.
fn of(cluster: &Cluster) -> Option<Box<dyn Balancer>> {
    match cluster.load_balancer {
        LoadBalancer::None | LoadBalancer::External => None,
        LoadBalancer::Local { kind, run } => Some(local(kind, run)),
        LoadBalancer::Holder { kind, .. } => Some(address_holder(kind)),
        LoadBalancer::Pods { kind } => Some(control_plane_pod(kind)),
    }
}

fn local(kind: LocalProxy, run: ProxyRun) -> Box<dyn Balancer> {
    let proxy: &'static dyn Proxy = match kind {
        LocalProxy::Haproxy => &haproxy::Haproxy,
        LocalProxy::Nginx => &nginx::Nginx,
    };
    match run {
        ProxyRun::Systemd => Box::new(local::Local { proxy }),
        ProxyRun::StaticPod => Box::new(static_pod::StaticPod { proxy }),
    }
}

fn address_holder(kind: AddressHolder) -> Box<dyn Balancer> {
    let proxy: &'static dyn Proxy = match kind {
        AddressHolder::KeepalivedHaproxy => &haproxy::Haproxy,
        AddressHolder::KeepalivedNginx => &nginx::Nginx,
    };
    Box::new(keepalived::Keepalived { proxy })
}

fn control_plane_pod(kind: ControlPlanePod) -> Box<dyn Balancer> {
    match kind {
        ControlPlanePod::KubeVip => Box::new(kube_vip::KubeVip),
    }
}

/// All that kubexm knows.
fn all() -> Vec<Box<dyn Balancer>> {
    let local = LocalProxy::ALL
        .iter()
        .map(|kind| local(*kind, ProxyRun::Systemd));
    let holders = AddressHolder::ALL.iter().copied().map(address_holder);
    let pods = ControlPlanePod::ALL.iter().copied().map(control_plane_pod);
    local.chain(holders).chain(pods).collect()
}

/// The load balancer of the cluster, if it has one that kubexm runs.
pub(super) struct LoadBalancers;

impl Module for LoadBalancers {
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef> {
        let image = of(inputs.cluster).and_then(|balancer| balancer.image());
        image
            .and_then(|image| found(inputs, &image))
            .into_iter()
            .collect()
    }

    fn images_of(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Vec<ImageRef> {
        match of(inputs.cluster) {
            Some(balancer) if balancer.runs_on(inputs.cluster, &host.name) => self.images(inputs),
            _ => Vec::new(),
        }
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        packages::lacking(inputs)
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        of(inputs.cluster).map_or(Ok(Vec::new()), |balancer| balancer.tasks(inputs))
    }
}

/// OS packages that only this host needs, and those like it.
pub(super) fn packages_of(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    format: PackageFormat,
) -> Vec<&'static str> {
    match of(inputs.cluster) {
        Some(balancer) if balancer.runs_on(inputs.cluster, &host.name) => balancer.packages(format),
        _ => Vec::new(),
    }
}

/// Tasks after which a host may become a node.
pub(super) fn ready(inputs: &Inputs<'_>, host: &HostSpec) -> Vec<TaskId> {
    of(inputs.cluster).map_or(Vec::new(), |balancer| balancer.ready(inputs, host))
}

/// Whether the kubelet must see static pods before `kubeadm init`.
pub(super) fn has_pod_before_init(cluster: &Cluster) -> bool {
    of(cluster).is_some_and(|balancer| balancer.has_pod_before_init())
}

/// Adds to the task that makes a host a node what must be done right after it.
pub(super) fn settle(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    match of(inputs.cluster) {
        Some(balancer) => balancer.settle(inputs, host, task),
        None => Ok(task),
    }
}

/// An image in the bundle, whichever version that has.
fn found(inputs: &Inputs<'_>, image: &Image) -> Option<ImageRef> {
    inputs.image_of(image.repository)
}

/// An image that must be in the bundle.
fn required(inputs: &Inputs<'_>, image: &Image) -> Result<ImageRef, DeployError> {
    found(inputs, image).ok_or_else(|| DeployError::Incomplete(vec![lacking_image(image)]))
}

fn lacking_image(image: &Image) -> String {
    let component = image.component;
    format!("the image of {component} (spec.loadBalancer.{component} of the manifest)")
}
