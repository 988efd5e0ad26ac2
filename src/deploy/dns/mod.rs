//! DNS in the cluster.

mod coredns;
mod corefile;
mod node_local;
#[cfg(test)]
mod tests;

pub(crate) use coredns::CONFIGURE;
use node_local::NO_CACHE;

use super::module::Module;
use super::{DeployError, Deployment, Inputs};
use kubexm_config::cluster::{CacheInterface, Cluster, HostSpec};
use kubexm_engine::plan::{Task, TaskId};
use kubexm_engine::steps::WaitFor;
use kubexm_types::{HostName, ImageRef};

/// Returns the unit of the cache on every node; `None` if it has none.
pub(super) fn unit(cluster: &Cluster) -> Option<&'static str> {
    let cache = cluster.dns.node_local.as_ref()?;
    (cache.interface == CacheInterface::Loopback).then_some(node_local::ADDRESS_UNIT)
}

/// DNS in the cluster.
pub(super) struct Dns;

impl Module for Dns {
    /// Returns the image of the cache. The image of CoreDNS is in the list of kubeadm.
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef> {
        let cache = inputs.cluster.dns.node_local.as_ref();
        cache
            .and_then(|_| node_local::image(inputs))
            .into_iter()
            .collect()
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        match (&inputs.cluster.dns.node_local, node_local::image(inputs)) {
            (Some(_), None) => vec![NO_CACHE.to_owned()],
            _ => Vec::new(),
        }
    }

    fn prepare(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        match &inputs.cluster.dns.node_local {
            Some(cache) if inputs.cluster.is_node(&host.name) => node_local::prepare(cache, task),
            _ => Ok(task),
        }
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        let Some(first) = inputs.first() else {
            return Ok(Vec::new());
        };
        let task = coredns::configure(inputs, first)?;
        Ok(vec![match &inputs.cluster.dns.node_local {
            Some(cache) => node_local::deploy(inputs, cache, task)?,
            None => task,
        }])
    }
}

/// Returns conditions that must hold before pods can resolve names, besides an answer from CoreDNS.
pub(super) fn waits(inputs: &Inputs<'_>) -> Vec<WaitFor> {
    let cache = inputs.cluster.dns.node_local.as_ref();
    cache.map(|_| node_local::wait()).into_iter().collect()
}

/// Returns the task that configures DNS from the first control plane.
pub(super) fn configured(first: &HostName) -> TaskId {
    CONFIGURE.id(first)
}
