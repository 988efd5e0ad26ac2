//! Plans what removes hosts from a cluster that exists, besides the reset of these hosts. The hosts that stay change by the
//! plan of an install with a cluster file that has only them.

use std::time::Duration;

use super::etcd::{Leaves, RemoveMembers};
use super::kubernetes::drain::{Drain, DrainNode, Reason};
use super::{DeployError, Inputs, load_balancer};
use crate::kubernetes::swept_node::SweptNode;
use crate::payloads::journal;
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind};
use kubexm_engine::Limit;
use kubexm_engine::plan::{About, Plan, Task, TaskId};
use kubexm_engine::steps::{RunScript, WaitFor};
use kubexm_etcd::{has_member, kind, member_names, peer_url};
use kubexm_scripts::kubernetes::{CONTROL_PLANE_STOP, NODE_REMOVE};
use kubexm_types::HostName;

/// How long the programs of a control plane may take to end.
const END: Duration = Duration::from_secs(60);
/// How long the objects of a node may take to disappear.
const OBJECTS: Limit = Limit::new(Duration::from_secs(300), "the removal of a node");

/// A host that leaves a cluster.
#[derive(Debug, Clone)]
pub struct Leaving {
    /// The host in the cluster file.
    pub spec: HostSpec,
    /// Whether it is a node.
    pub is_node: bool,
    /// Whether it is a control plane.
    pub is_control_plane: bool,
    /// Whether it has a member of etcd that kubexm or kubeadm runs.
    pub has_member: bool,
    /// Whether its load balancer can have the address of the endpoint, besides those of others.
    pub holds_address: bool,
    /// Whether it does not work any more: it cannot be reached, or is another host with its name.
    pub is_lost: bool,
}

impl Leaving {
    /// Returns what a host of a cluster file is to its cluster.
    pub fn of(cluster: &Cluster, spec: &HostSpec, is_lost: bool) -> Self {
        let name = &spec.name;
        Self {
            spec: spec.clone(),
            is_node: cluster.is_node(name),
            is_control_plane: cluster.is_control_plane(name),
            has_member: has_member(cluster, name),
            holds_address: load_balancer::holds_address(cluster, name),
            is_lost,
        }
    }
}

/// What a removal depends on.
pub struct RemovalInputs<'a> {
    /// As of an install of the cluster without the hosts that leave.
    pub inputs: Inputs<'a>,
    /// The hosts that leave.
    pub leaving: &'a [Leaving],
    /// How pods leave a node.
    pub drain: Drain,
    /// A host that stays and whose member of etcd answers; `None` if no member leaves.
    pub asked: Option<&'a HostName>,
}

impl RemovalInputs<'_> {
    /// Plans what happens while all hosts work: hosts that are lost leave etcd and the cluster, pods leave the other
    /// ones, one after another, and so does the address of the endpoint. Load balancers that stay still listen to those that
    /// leave: two of them would have the address after the next change of their settings.
    pub fn beginning(&self) -> Plan {
        let mut plan = Plan::default();
        let mut before: Option<TaskId> = None;
        let lost = self.leaving.iter().filter(|host| host.is_lost);
        let tasks = lost.flat_map(|host| {
            let leave = self.leave_etcd(host);
            leave.into_iter().chain(self.delete(host))
        });
        let working = self.leaving.iter().filter(|host| !host.is_lost);
        let drains = working.clone().filter_map(|host| self.drain(host));
        let addresses = working.filter_map(|host| self.cede(host));
        for task in tasks.chain(drains).chain(addresses) {
            let id = task.id();
            plan.tasks.push(task.after(before.replace(id)));
        }
        plan
    }

    /// Plans the install of the hosts that stay.
    ///
    /// # Errors
    /// See [`plan`](super::plan).
    pub fn install(&self) -> Result<super::Deployment, DeployError> {
        super::plan(&self.inputs)
    }

    /// Plans what happens before the reset of a host that works: its control plane ends, and its member leaves etcd.
    ///
    /// # Errors
    /// The load balancer needs what the cluster file does not have.
    pub fn departure(&self, host: &Leaving) -> Result<Plan, DeployError> {
        let kind = match self.inputs.cluster.kubernetes.kind {
            KubernetesKind::Kubeadm => "kubeadm",
            KubernetesKind::Systemd => "systemd",
        };
        let stop = RunScript::new(
            "control plane stop",
            "End the API server without failures of requests, and the other programs of the control plane",
            CONTROL_PLANE_STOP.verb("stopped"),
            CONTROL_PLANE_STOP.verb("stop"),
        );
        let task = Task::new("node", "stop", &host.spec.name);
        let task = load_balancer::departing(self.inputs.cluster, task)?;
        let ended = WaitFor {
            title: "Wait until the programs of the control plane have ended".to_owned(),
            script: CONTROL_PLANE_STOP.verb("stopped"),
            arguments: vec![kind.to_owned()],
            at_most: END,
            diagnosis: journal("kubelet", 10),
            about: About::Other,
        };
        let stop = task.step(stop.arguments([kind])).step(ended);
        let stop = (host.is_control_plane && !host.is_lost).then_some(stop);
        let before = stop.as_ref().map(Task::id);
        let leave = self.leave_etcd(host).map(|task| task.after(before));
        let tasks = stop.into_iter().chain(leave);
        Ok(Plan {
            tasks: tasks.collect(),
        })
    }

    /// Plans what happens after the reset of a host.
    pub fn deletion(&self, host: &Leaving) -> Plan {
        Plan {
            tasks: self.delete(host).into_iter().collect(),
        }
    }

    fn drain(&self, host: &Leaving) -> Option<Task> {
        let (first, name) = (self.inputs.first()?, &host.spec.name);
        let step = DrainNode {
            node: name.clone(),
            drain: self.drain,
            reason: Reason::Departure,
        };
        let task = Task::new("node", &format!("drain-{name}"), &first.name).step(step);
        host.is_node.then_some(task)
    }

    fn cede(&self, host: &Leaving) -> Option<Task> {
        let name = &host.spec.name;
        let step = load_balancer::ceding(self.inputs.cluster).filter(|_| host.holds_address)?;
        Some(Task::new("node", &format!("address-{name}"), name).step(step))
    }

    fn leave_etcd(&self, host: &Leaving) -> Option<Task> {
        let cluster = self.inputs.cluster;
        let kind = kind(cluster).filter(|_| host.has_member)?;
        let on = self.asked.or(member_names(cluster).first())?;
        let name = &host.spec.name;
        let step = RemoveMembers {
            kind,
            id: format!("member {name}"),
            title: format!("Remove the member of {name} from etcd"),
            leaves: Leaves::Host(peer_url(&host.spec)),
        };
        Some(Task::new("node", &format!("member-{name}"), on).step(step))
    }

    fn delete(&self, host: &Leaving) -> Option<Task> {
        let (first, name) = (self.inputs.first()?, &host.spec.name);
        let task = Task::new("node", &format!("delete-{name}"), &first.name);
        host.is_node.then(|| delete_node(task, name, host.is_lost))
    }
}

/// Lets a task of a control plane delete a node, and what the cluster has because of it. Of a host that is lost, also the pods,
/// which no kubelet can end.
pub(crate) fn delete_node(task: Task, name: &HostName, is_lost: bool) -> Task {
    let (ends, title) = if is_lost {
        ("lost", format!("Delete the node {name}, and its pods"))
    } else {
        ("left", format!("Delete the node {name}"))
    };
    let delete = RunScript::new(
        &format!("delete {name}"),
        title,
        NODE_REMOVE.verb("check"),
        NODE_REMOVE.verb("delete"),
    );
    task.step(delete.arguments([name.as_str(), ends]).limit(OBJECTS))
        .step(SweptNode(name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{cluster, with_inputs};

    /// Returns the steps that remove the host node9, which is like the first one of the cluster: what happens first, and
    /// what happens before its reset.
    fn steps(balancer: &str) -> [Vec<String>; 2] {
        let remaining = cluster("", balancer);
        let mut spec = remaining.hosts[0].clone();
        spec.name = "node9".parse().unwrap();
        let leaving = Leaving {
            is_control_plane: true,
            holds_address: load_balancer::holds_address(&remaining, &remaining.hosts[0].name),
            ..Leaving::of(&remaining, &spec, false)
        };
        with_inputs(&remaining, &[], "", |inputs| {
            let given = RemovalInputs {
                inputs: inputs.clone(),
                leaving: std::slice::from_ref(&leaving),
                drain: Drain {
                    timeout: Duration::from_secs(1),
                    deletes_unmanaged: false,
                    ignores_budgets: false,
                },
                asked: None,
            };
            [given.beginning(), given.departure(&leaving).unwrap()].map(|plan| {
                let steps = plan.tasks.iter().flat_map(|task| &task.steps);
                steps.map(|step| step.id().to_owned()).collect()
            })
        })
    }

    #[test]
    fn address_of_the_endpoint_leaves_before_the_control_plane_ends() {
        // One control plane remains, so that an address can go there.
        let endpoint = "controlPlaneEndpoint: {address: 192.0.2.99}";
        let [_, kube_vip] = steps(&format!("{endpoint}\nhighAvailability: {{type: kube-vip}}"));
        let stop = "control plane stop";
        let ended = "wait Wait until the programs of the control plane have ended";
        assert_eq!(kube_vip, ["endpoint leaves", stop, ended]);
        let [beginning, haproxy] = steps("highAvailability: {type: haproxy}");
        assert_eq!(haproxy, [stop, ended]);
        assert!(
            !beginning.contains(&"keepalived leaves".to_owned()),
            "{beginning:?}"
        );
    }

    #[test]
    fn keepalived_ends_before_the_others_do_not_listen_to_it() {
        let [beginning, _] = steps(
            "controlPlaneEndpoint: {address: 192.0.2.99, port: 8443}\nhighAvailability: {type: keepalived-haproxy}",
        );
        assert_eq!(beginning.last().unwrap(), "keepalived leaves");
    }
}
