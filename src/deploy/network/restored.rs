//! The pod network of nodes after a restore of etcd. A node that was replaced since the backup has another pod subnet there,
//! and so can the nodes that an install before the restore has created.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::bridge::Bridges;
use super::subnets;
use crate::DeployError;
use kubexm_config::Cluster;
use kubexm_config::cluster::{HostSpec, NetworkPlugin};
use kubexm_engine::Limit;
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_engine::steps::{DeferredArguments, RunScript};
use kubexm_scripts::network::POD_BRIDGE;

/// Reads the pod subnet of each node.
const READ: TaskName = TaskName::new("restore", "subnets");
/// Lets the network of a node follow its pod subnet.
const FOLLOW: TaskName = TaskName::new("restore", "pod-network");
/// How long flannel may take to follow, and kubelet to stop.
const SETTLING: Limit = Limit::new(Duration::from_secs(420), "the pod network");

/// Returns tasks that let the network of each node follow the pod subnet that the restored cluster has for it. Calico and
/// Cilium do not use the bridge, and assign addresses themselves.
///
/// `id` is that of the restore.
pub(crate) fn follow_subnets(
    cluster: &Cluster,
    nodes: &[&HostSpec],
    id: &str,
    after: Vec<TaskId>,
) -> Result<Vec<Task>, DeployError> {
    let plugin = match cluster.network.plugin {
        NetworkPlugin::Flannel(_) => "flannel",
        NetworkPlugin::Bridge => "bridge",
        NetworkPlugin::Calico(_) | NetworkPlugin::Cilium(_) | NetworkPlugin::None => {
            return Ok(Vec::new());
        }
    };
    let mut control_planes = cluster.roles.control_plane.iter();
    let Some(first) = control_planes.next() else {
        return Ok(Vec::new());
    };
    let bridges = Bridges {
        cluster,
        nodes: nodes.to_vec(),
        leaving: &BTreeSet::new(),
        subnets: subnets::value(),
    };
    let read = READ.task(first).after(after);
    let mut tasks = vec![read.step(subnets::read(nodes, &bridges.subnets))];
    for host in nodes {
        let mut task = FOLLOW.task(&host.name).after([READ.id(first)]);
        match cluster.network.plugin {
            NetworkPlugin::Bridge => task = bridges.configure(host, task)?,
            _ => task.requires.push(bridges.subnets.name()),
        }
        let (name, subnets) = (host.name.clone(), bridges.subnets.clone());
        let addresses: DeferredArguments =
            Arc::new(move || Ok(subnets.require()?.bridge_addresses(&name)));
        let step = RunScript::new(
            "restore pod-network",
            "Let the bridge of pods follow the pod subnet of the node",
            POD_BRIDGE.verb("follows"),
            POD_BRIDGE.verb("follow"),
        );
        let step = step.arguments([id, plugin]).more_arguments(addresses);
        tasks.push(task.step(step.limit(SETTLING)));
    }
    Ok(tasks)
}
