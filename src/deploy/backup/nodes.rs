//! The last part of a restore: objects of the backup fit the hosts, and the programs of nodes start again.

use super::{ANSWER, RestoreInputs, STOPPING};
use crate::kubernetes::aggregated_cas::AggregatedCas;
use crate::kubernetes::nodes::NodesWait;
use crate::kubernetes::present_addresses::PresentAddresses;
use crate::kubernetes::stored_endpoint::StoredEndpoint;
use crate::kubernetes::trusted_cas::TrustedCas;
use crate::removal::delete_node;
use kubexm_config::cluster::{HostSpec, KubernetesKind};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_engine::steps::RunScript;
use kubexm_scripts::network::POD_BRIDGE;

/// Lets the objects of the backup fit the hosts.
const OBJECTS: TaskName = TaskName::new("restore", "objects");
/// Restarts the programs of a node.
const NODE: TaskName = TaskName::new("restore", "node");
/// Waits until all nodes are Ready.
const READY: TaskName = TaskName::new("restore", "ready");

impl RestoreInputs<'_> {
    pub(super) fn present_nodes(&self) -> Vec<&HostSpec> {
        let mut nodes = self.cluster.nodes();
        nodes.retain(|host| !self.absent.contains(&host.name));
        nodes
    }

    /// A node restarts after the objects of the backup fit the hosts.
    pub(super) fn nodes(&self) -> Vec<Task> {
        let nodes = self.present_nodes();
        let names: &[&str] = match self.kubernetes_kind() {
            "systemd" => &["kubelet", "kube-proxy"],
            _ => &["kubelet"],
        };
        let first = self.hosts().into_iter().next();
        let objects = first.map(|first| self.settle(OBJECTS.task(&first.name), &nodes));
        let settled = objects.as_ref().map(Task::id);
        let mut tasks: Vec<Task> = objects.into_iter().collect();
        for host in &nodes {
            let title = format!("Restart {}", names.join(" and "));
            let verbs = ["restarted", "restart"];
            let step = self.programs("restore restart", &title, "systemd", names, verbs);
            let task = NODE.task(&host.name).after(settled.clone());
            let task = if self.new_hosts.is_some() {
                task.step(self.clear())
            } else {
                task
            };
            tasks.push(task.step(step));
        }
        let restarted: Vec<TaskId> = tasks.iter().map(Task::id).collect();
        tasks.extend(first.map(|first| {
            let ready = NodesWait::ready(&nodes, ANSWER);
            let task = READY.task(&first.name).after(restarted).step(ready);
            match self.cas {
                // A rotation after the backup has replaced CAs that its objects name.
                Some(cas) => task
                    .step(TrustedCas(cas.kubernetes.clone()))
                    .step(AggregatedCas {
                        clients: cas.kubernetes.clone(),
                        proxies: cas.front_proxy.clone(),
                    }),
                None => task,
            }
        }));
        tasks
    }

    /// Lets the objects of the backup fit the hosts. A kubelet that restarts takes over addresses from them.
    fn settle(&self, task: Task, nodes: &[&HostSpec]) -> Task {
        let task = match self.cluster.kubernetes.kind {
            // The backup can be of the time before the cluster moved to another network.
            KubernetesKind::Kubeadm => task.step(StoredEndpoint::of(self.cluster)),
            KubernetesKind::Systemd => task,
        };
        let gone = self.new_hosts.map_or(&[][..], |new| new.gone);
        let task = gone
            .iter()
            .fold(task, |task, name| delete_node(task, name, true));
        task.step(PresentAddresses::of(nodes))
    }

    /// Returns the step that removes the pods that an install before the restore has started.
    fn clear(&self) -> RunScript {
        let [check, apply] = ["cleared", "clear"].map(|verb| POD_BRIDGE.verb(verb));
        let title = "Remove the pods of the install before the restore";
        let step = RunScript::new("restore clear", title, check, apply);
        step.arguments([self.id]).limit(STOPPING)
    }
}
