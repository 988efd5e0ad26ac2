//! Names within the cluster.

mod coredns;
mod corefile;
mod node_local;
#[cfg(test)]
mod tests;

use super::{DeployError, Inputs, id};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{Task, TaskId};
use kubexm_engine::steps::WaitFor;
use kubexm_types::{HostName, ImageRef};

/// Images that names are resolved with, CoreDNS' own aside: that is one of Kubernetes' own.
pub(super) fn images(inputs: &Inputs<'_>) -> Vec<ImageRef> {
    let cache = inputs.cluster.dns.node_local.as_ref();
    cache
        .and_then(|_| node_local::image(inputs))
        .into_iter()
        .collect()
}

/// What it needs and the bundle has not.
pub(super) fn lacking(inputs: &Inputs<'_>) -> Vec<String> {
    match (&inputs.cluster.dns.node_local, node_local::image(inputs)) {
        (Some(_), None) => {
            let what = "NodeLocal DNSCache (spec.components.node-local-dns of the manifest)";
            vec![what.to_owned()]
        }
        _ => Vec::new(),
    }
}

/// Adds to the task that prepares a host what the cache needs there, where it will be a node.
pub(super) fn prepare(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    match &inputs.cluster.dns.node_local {
        Some(cache) if inputs.cluster.is_node(&host.name) => node_local::prepare(cache, task),
        _ => Ok(task),
    }
}

/// Has names resolved in the cluster as the spec wants it.
pub(super) fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(Vec::new());
    };
    let task = coredns::configure(inputs, first)?;
    Ok(vec![match &inputs.cluster.dns.node_local {
        Some(cache) => node_local::deploy(inputs, cache, task)?,
        None => task,
    }])
}

/// What must be so, besides an answer of CoreDNS', before pods can resolve names.
pub(super) fn waits(inputs: &Inputs<'_>) -> Vec<WaitFor> {
    let cache = inputs.cluster.dns.node_local.as_ref();
    cache.map(|_| node_local::wait()).into_iter().collect()
}

/// The task after which the first control plane has told the cluster about DNS.
pub(super) fn configured(first: &HostName) -> TaskId {
    id("dns", "configure", first)
}
