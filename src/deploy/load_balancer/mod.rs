//! Load balancers for the API servers. They are proxies on every node ([`local`]), an address on hosts of the
//! role `loadbalancer` ([`address_holder`]), or an address on control planes ([`control_plane_pod`]).

mod address;
mod haproxy;
mod interface;
pub(crate) mod keepalived;
mod kube_vip;
mod local;
mod nginx;
mod packages;
mod proxy;
mod proxy_pod;
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
use kubexm_engine::plan::{Task, TaskId};
use kubexm_engine::steps::RunScript;
use kubexm_types::{HostName, ImageRef};

pub(super) use interface::Balancer;
use interface::{Image, bundled_image, missing_image, required_image};
pub(super) use packages::{is_load_balancer, mask_services};

/// Returns the cluster's load balancer; `None` if kubexm does not install one.
fn configured(cluster: &Cluster) -> Option<Box<dyn Balancer>> {
    match cluster.high_availability.kind {
        LoadBalancer::None | LoadBalancer::External => None,
        LoadBalancer::Local { kind, run } => Some(local(kind, run)),
        LoadBalancer::Holder { kind, run, .. } => Some(address_holder(kind, run)),
        LoadBalancer::Pods { kind } => Some(control_plane_pod(kind)),
    }
}

fn proxy(kind: LocalProxy) -> &'static dyn Proxy {
    match kind {
        LocalProxy::Haproxy => &haproxy::Haproxy,
        LocalProxy::Nginx => &nginx::Nginx,
    }
}

fn local(kind: LocalProxy, run: ProxyRun) -> Box<dyn Balancer> {
    let proxy = proxy(kind);
    match run {
        ProxyRun::Systemd => Box::new(local::Local { proxy }),
        ProxyRun::StaticPod => Box::new(static_pod::StaticPod { proxy }),
    }
}

fn address_holder(kind: AddressHolder, run: ProxyRun) -> Box<dyn Balancer> {
    let proxy = proxy(kind.proxy());
    Box::new(keepalived::Keepalived { proxy, run })
}

fn control_plane_pod(kind: ControlPlanePod) -> Box<dyn Balancer> {
    match kind {
        ControlPlanePod::KubeVip => Box::new(kube_vip::KubeVip),
    }
}

/// Returns all load balancers.
pub(super) fn all() -> Vec<Box<dyn Balancer>> {
    let local = LocalProxy::ALL
        .iter()
        .map(|kind| local(*kind, ProxyRun::Systemd));
    let holders = AddressHolder::ALL.iter().copied();
    let holders = holders.map(|kind| address_holder(kind, ProxyRun::Systemd));
    let pods = ControlPlanePod::ALL.iter().copied().map(control_plane_pod);
    local.chain(holders).chain(pods).collect()
}

/// The load balancer of the cluster, if kubexm installs one.
pub(super) struct LoadBalancers;

impl Module for LoadBalancers {
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef> {
        let image = configured(inputs.cluster).and_then(|balancer| balancer.image());
        image
            .and_then(|image| bundled_image(inputs, &image))
            .into_iter()
            .collect()
    }

    fn images_on(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Vec<ImageRef> {
        match configured(inputs.cluster) {
            Some(balancer) if balancer.runs_on(inputs.cluster, &host.name) => self.images(inputs),
            _ => Vec::new(),
        }
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        packages::missing(inputs)
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        configured(inputs.cluster).map_or(Ok(Vec::new()), |balancer| balancer.tasks(inputs))
    }
}

/// Returns the OS packages of the load balancer on a host.
pub(super) fn packages_on(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    format: PackageFormat,
) -> Vec<&'static str> {
    match configured(inputs.cluster) {
        Some(balancer) if balancer.runs_on(inputs.cluster, &host.name) => balancer.packages(format),
        _ => Vec::new(),
    }
}

/// Returns the systemd units of the load balancer on a host.
pub(super) fn units_on(cluster: &Cluster, host: &HostName) -> Vec<String> {
    match configured(cluster) {
        Some(balancer) if balancer.runs_on(cluster, host) => balancer.units(),
        _ => Vec::new(),
    }
}

/// Returns the tasks that must succeed before a host becomes a node.
pub(super) fn tasks_before_join(inputs: &Inputs<'_>, host: &HostSpec) -> Vec<TaskId> {
    configured(inputs.cluster).map_or(Vec::new(), |balancer| {
        balancer.tasks_before_join(inputs, host)
    })
}

/// Returns whether the endpoint answers only after the kubelet of the first control plane runs a static pod.
pub(super) fn is_static_pod(cluster: &Cluster) -> bool {
    configured(cluster).is_some_and(|balancer| balancer.is_static_pod())
}

/// Returns the names of the static pods of the load balancer on a host.
pub(super) fn static_pods(cluster: &Cluster, host: &HostName) -> Vec<String> {
    match configured(cluster) {
        Some(balancer) if balancer.runs_on(cluster, host) => balancer.static_pods(cluster),
        _ => Vec::new(),
    }
}

/// Adds the step after which the endpoint does not depend on the API server of a host, which restarts next.
pub(super) fn leaving(cluster: &Cluster, host: &HostSpec, task: Task) -> Result<Task, DeployError> {
    if has_others(cluster, host) {
        departing(cluster, task)
    } else {
        Ok(task)
    }
}

/// Adds the step after which the endpoint does not depend on the API server of a host that leaves the cluster. The cluster
/// is the one without this host.
pub(super) fn departing(cluster: &Cluster, task: Task) -> Result<Task, DeployError> {
    match configured(cluster) {
        Some(balancer) => balancer.leaving(cluster, task),
        None => Ok(task),
    }
}

/// Returns whether the load balancer of a host can have the address of the endpoint without a control plane on the host.
pub(super) fn holds_address(cluster: &Cluster, host: &HostName) -> bool {
    let is_holder = matches!(cluster.high_availability.kind, LoadBalancer::Holder { .. });
    is_holder && cluster.roles.load_balancer.contains(host)
}

/// Returns the step after which another load balancer has the address of the endpoint. It is for a host that
/// [can have the address](holds_address) and leaves the cluster.
pub(super) fn ceding(cluster: &Cluster) -> Option<RunScript> {
    let address = cluster.control_plane_endpoint.ip()?;
    Some(keepalived::ceding(address))
}

/// Adds the step that ends what [`leaving`] began, after the API server of the host has restarted.
pub(super) fn returning(
    cluster: &Cluster,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    match configured(cluster) {
        Some(balancer) if has_others(cluster, host) => balancer.returning(cluster, task),
        _ => Ok(task),
    }
}

/// Returns whether the host is one of several control planes.
fn has_others(cluster: &Cluster, host: &HostSpec) -> bool {
    cluster.is_control_plane(&host.name) && cluster.roles.control_plane.len() > 1
}

/// Adds the steps after which the pods of a host use its present kubeconfig.
pub(super) fn renewed(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    match configured(inputs.cluster) {
        Some(balancer) if balancer.runs_on(inputs.cluster, &host.name) => {
            balancer.renewed(inputs, host, task)
        }
        _ => Ok(task),
    }
}

/// Adds the steps that must run immediately after a host has become a node.
pub(super) fn after_join(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    match configured(inputs.cluster) {
        Some(balancer) => balancer.after_join(inputs, host, task),
        None => Ok(task),
    }
}
