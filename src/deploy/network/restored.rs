//! The pod network of nodes after a restore of etcd. A node that was replaced since the backup has another pod subnet there,
//! and so can the nodes that an install before the restore has created.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::bridge::{Bridges, pod_bridge};
use super::subnets::{self, ReadSubnets};
use crate::DeployError;
use crate::kubernetes::nodes::NodesWait;
use kubexm_config::Cluster;
use kubexm_config::cluster::{HostSpec, NetworkPlugin};
use kubexm_engine::plan::{About, Step, Task, TaskName};
use kubexm_engine::steps::{DeferredArguments, RunScript, WaitFor};
use kubexm_scripts::network::FLANNEL_RESTART;

/// Reads the pod subnet of each node.
const READ: TaskName = TaskName::new("restore", "subnets");
/// Lets the network of a node follow the pod subnet of the node.
const FOLLOW: TaskName = TaskName::new("restore", "pod-network");

/// Returns tasks that let the network of each node follow the pod subnet that the restored cluster has for it. Calico and
/// Cilium do not use the bridge, and assign addresses themselves.
///
/// `id` is that of the restore.
pub(crate) fn follow_subnets(
    cluster: &Cluster,
    nodes: &[&HostSpec],
    id: &str,
) -> Result<Vec<Task>, DeployError> {
    let plugin = cluster.network.plugin;
    if !plugin.properties().has_bridge {
        return Ok(Vec::new());
    }
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
    let mut read = ReadSubnets {
        only: BTreeSet::new(),
        value: bridges.subnets.clone(),
    };
    if plugin != NetworkPlugin::Bridge {
        // Other nodes may have no address: only the routes of the bridge need it.
        read.only = nodes.iter().map(|host| host.name.clone()).collect();
    }
    let wait = NodesWait::pod_subnet(nodes);
    let mut tasks = vec![READ.task(first).step(wait).step(read)];
    for host in nodes {
        let task = FOLLOW.task(&host.name).after([READ.id(first)]);
        tasks.push(match plugin {
            NetworkPlugin::Bridge => bridges.configure(host, task)?,
            _ => {
                let addresses = bridges.addresses(&host.name);
                let [restart, follows] = restart_of_flannel(id, Arc::clone(&addresses));
                let bridge = pod_bridge("restore pod-network", addresses);
                bridges.reads_subnets(task.step(restart).step(follows).step(bridge))
            }
        });
    }
    Ok(tasks)
}

/// Returns the steps that let flannel start once more in a restore, and wait until it has the subnets of its node.
fn restart_of_flannel(id: &str, subnets: DeferredArguments) -> [Step; 2] {
    let [follows, restart] = ["follows", "restart"].map(|verb| FLANNEL_RESTART.verb(verb));
    let title = "Restart flannel, which may not notice another pod subnet of the node";
    let step = RunScript::new("restore flannel", title, follows, restart);
    let step = step.arguments([id]).more_arguments(subnets);
    let hint =
        "echo 'see why its pod does not run; run kubexm install, and then this command again'";
    let wait = WaitFor {
        title: "Wait until flannel follows the pod subnet of the node".to_owned(),
        script: follows,
        arguments: vec![id.to_owned()],
        at_most: Duration::from_secs(300),
        diagnosis: hint.into(),
        about: About::Other,
    };
    [step.into(), wait.into()]
}
