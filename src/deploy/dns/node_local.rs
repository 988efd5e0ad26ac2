//! NodeLocal DNSCache: a cache on every node. The kubelet configures it as the name server of pods.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::corefile;
use crate::{DeployError, Inputs, manifest, pod_leftovers};
use kubexm_config::cluster::{CacheInterface, NodeLocal};
use kubexm_config::ports;
use kubexm_engine::plan::{About, Task};
use kubexm_engine::steps::{ManageUnit, WaitFor, WriteFile};
use kubexm_render::dns;
use kubexm_scripts::dns as scripts;
use kubexm_types::{HostPath, ImageRef};

pub(super) const ADDRESS_UNIT: &str = "kubexm-dns-address.service";

/// The message for a bundle without the image of the cache.
pub(super) const NO_CACHE: &str =
    "NodeLocal DNSCache (spec.components.node-local-dns of the manifest)";

/// Returns the image of the cache in the bundle.
pub(super) fn image(inputs: &Inputs<'_>) -> Option<ImageRef> {
    inputs.image_of("dns/k8s-dns-node-cache")
}

/// Adds the steps that a node needs before the cache runs on it.
pub(super) fn prepare(cache: &NodeLocal, task: Task) -> Result<Task, DeployError> {
    let task = task.step(pod_leftovers::register_cleanup(
        "node-local-dns",
        "the rules of the DNS cache",
        "node-local-dns",
    ));
    if cache.interface == CacheInterface::Dummy {
        return Ok(task);
    }
    let bits = if cache.address.is_ipv4() { 32 } else { 128 };
    let unit = dns::CacheAddress {
        address: format!("{}/{bits}", cache.address),
    };
    let path = HostPath::parse(&format!("/etc/systemd/system/{ADDRESS_UNIT}"))?;
    let text = kubexm_render::text("DNS cache address unit", &unit)?;
    Ok(task
        .step(WriteFile::new(path.clone(), text))
        .step(ManageUnit {
            name: ADDRESS_UNIT.to_owned(),
            files: vec![path],
            reload: None,
            start: true,
        }))
}

/// Adds the steps that deploy the caches.
pub(super) fn deploy(
    inputs: &Inputs<'_>,
    cache: &NodeLocal,
    task: Task,
) -> Result<Task, DeployError> {
    let image = image(inputs).ok_or_else(|| DeployError::Incomplete(vec![NO_CACHE.to_owned()]))?;
    let text = kubexm_render::text(
        "NodeLocal DNSCache",
        &dns::NodeLocal {
            corefile: corefile::for_cache(inputs, cache)?,
            image: image.to_string(),
            address: cache.address.to_string(),
            makes_interface: cache.interface == CacheInterface::Dummy,
        },
    )?;
    let title = "Deploy the DNS caches of the nodes";
    manifest::written(task, "node-local-dns", title, text)
}

/// Waits until the cache is ready on every node, because pods use only the cache.
pub(super) fn wait() -> WaitFor {
    WaitFor {
        title: "Wait until every node has its DNS cache".to_owned(),
        script: scripts::NODE_LOCAL.verb("check"),
        arguments: Vec::new(),
        at_most: Duration::from_secs(180),
        diagnosis: scripts::NODE_LOCAL.verb("diagnose").into(),
        about: About::Other,
    }
}

/// Returns the address of the cache's health check.
pub(super) fn health(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, ports::DNS_HEALTH)
}
