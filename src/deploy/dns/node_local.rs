//! NodeLocal DNSCache: a cache on every node, which the kubelet gives to pods as their name server.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::corefile;
use crate::{DeployError, ETC, Inputs, manifest, traces};
use kubexm_config::cluster::{CacheInterface, NodeLocal};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{ManageUnit, WaitFor, WriteFile};
use kubexm_render::dns;
use kubexm_scripts::dns as scripts;
use kubexm_types::{HostPath, ImageRef};

const ADDRESS_UNIT: &str = "kubexm-dns-address.service";

/// The cache's image, out of what the bundle has.
pub(super) fn image(inputs: &Inputs<'_>) -> Option<ImageRef> {
    inputs.image_of("dns/k8s-dns-node-cache")
}

/// What a node needs before the cache runs on it.
pub(super) fn prepare(cache: &NodeLocal, task: Task) -> Result<Task, DeployError> {
    let task = task.step(traces::note(
        "node-local-dns",
        "the DNS cache's rules",
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
            start: true,
        }))
}

/// Deploys the caches.
pub(super) fn deploy(
    inputs: &Inputs<'_>,
    cache: &NodeLocal,
    task: Task,
) -> Result<Task, DeployError> {
    let image =
        image(inputs).ok_or_else(|| DeployError::Incomplete(vec![super::NO_CACHE.to_owned()]))?;
    let text = kubexm_render::text(
        "NodeLocal DNSCache",
        &dns::NodeLocal {
            corefile: corefile::of_cache(inputs, cache)?,
            image: image.to_string(),
            address: cache.address.to_string(),
            makes_interface: cache.interface == CacheInterface::Dummy,
        },
    )?;
    let path = HostPath::parse(&format!("{ETC}/node-local-dns.yaml"))?;
    let title = "Deploy the nodes' DNS caches";
    Ok(task
        .step(WriteFile::new(path.clone(), text))
        .step(manifest::apply("node-local-dns", title, path.as_str())))
}

/// Pods resolve nothing before the cache on their node is ready.
pub(super) fn wait() -> WaitFor {
    WaitFor {
        title: "Wait until every node has its DNS cache".to_owned(),
        script: scripts::NODE_LOCAL.verb("check"),
        arguments: Vec::new(),
        at_most: Duration::from_secs(180),
        diagnosis: scripts::NODE_LOCAL.verb("diagnose").into(),
    }
}

/// Where the cache says that it lives.
pub(super) fn health(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, 8080)
}
