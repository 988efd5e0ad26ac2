//! The last tasks of an install: they fetch the kubeconfig, remove join secrets and wait for the cluster. Only the
//! last one depends on workers.

use std::time::Duration;

use super::kubernetes::join_secrets::JoinSecrets;
use super::kubernetes::kubeconfig::{fetch_kubeconfig, fetch_super_admin, has_super_admin};
use super::kubernetes::nodes::NodesWait;
use super::kubernetes::system_pods::DnsPodsWait;
use super::module::Module;
use super::{DeployError, Deployment, Inputs, dns, kubernetes, network};
use kubexm_config::cluster::NetworkPlugin;
use kubexm_engine::plan::{About, Task, TaskId, TaskName};
use kubexm_engine::steps::WaitFor;

/// Fetches the kubeconfig.
const KUBECONFIG: TaskName = TaskName::new("cluster", "kubeconfig");
/// Removes join secrets.
const JOIN_SECRETS: TaskName = TaskName::new("cluster", "join-secrets");
/// Sets what pods without a service account of their own may do.
const ACCOUNTS: TaskName = TaskName::new("cluster", "accounts");
/// Waits for the cluster.
pub(crate) const READY: TaskName = TaskName::new("cluster", "ready");

/// The last tasks. They run on the first control plane.
pub(super) struct PostInstall;

impl Module for PostInstall {
    fn tasks(
        &self,
        inputs: &Inputs<'_>,
        deployment: &Deployment,
    ) -> Result<Vec<Task>, DeployError> {
        let network = network::tasks_in(&deployment.plan.tasks);
        tasks(inputs, deployment, network)
    }
}

fn tasks(
    inputs: &Inputs<'_>,
    deployment: &Deployment,
    network: Vec<TaskId>,
) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(Vec::new());
    };
    let nodes = inputs.nodes();
    // After the network plugin has created its namespace.
    let accounts = kubernetes::profile::default_accounts(inputs.cluster).map(|step| {
        ACCOUNTS
            .task(&first.name)
            .after([kubernetes::first_control_plane(first)])
            .after(network.clone())
            .step(step)
    });
    let mut task = READY
        .task(&first.name)
        .after(kubernetes::all_joined(inputs))
        .after([dns::configured(&first.name)])
        .after(network);
    if inputs.cluster.network.plugin != NetworkPlugin::None {
        task = task.step(NodesWait::ready(&nodes, Duration::from_secs(300)));
        // After a power failure the kubelet restarts pods with a back-off of up to five minutes.
        let restarting = Duration::from_secs(360);
        task = task.step(DnsPodsWait::new(inputs.cluster, restarting));
        task = task.step(WaitFor {
            title: "Wait until CoreDNS answers".to_owned(),
            script: kubexm_scripts::dns::ANSWERS,
            arguments: vec![
                inputs.cluster.network.dns_address.to_string(),
                inputs.cluster.kubernetes.dns_domain.clone(),
            ],
            at_most: Duration::from_secs(120),
            diagnosis: kubexm_scripts::dns::DIAGNOSIS.into(),
            about: About::Dns,
        });
        for wait in dns::waits(inputs) {
            task = task.step(wait);
        }
    }
    let fetch = KUBECONFIG
        .task(&first.name)
        .after([kubernetes::first_control_plane(first)])
        .step(fetch_kubeconfig(inputs, first, &deployment.kubeconfig));
    // A worker that failed must not leave the secrets in the cluster.
    let remove_secrets = JOIN_SECRETS
        .task(&first.name)
        .after([kubernetes::first_control_plane(first)])
        .after_end(nodes.iter().map(|host| kubernetes::joined(inputs, host)))
        .step(JoinSecrets);
    let task = if has_super_admin(inputs.cluster) {
        task.step(fetch_super_admin(inputs, first, &deployment.super_admin))
    } else {
        task
    };
    Ok([fetch, remove_secrets, task]
        .into_iter()
        .chain(accounts)
        .collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::example::{self, cluster, with_inputs};
    use kubexm_engine::plan::Plan;
    use kubexm_engine::plan::graph::Graph;

    const FLANNEL: [&str; 2] = [
        "ghcr.io/flannel-io/flannel:v0.28.4",
        "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
    ];

    /// Returns the plan for a control plane `node1` and a worker `node2`, without these workers.
    fn plan_without(absent: &[&str]) -> Plan {
        example::plan_without(&cluster("", ""), &FLANNEL, absent)
    }

    fn ids(ids: &[TaskId]) -> BTreeSet<&str> {
        ids.iter().map(|id| id.0.as_str()).collect()
    }

    #[test]
    fn kubeconfig_and_join_secrets_do_not_depend_on_workers() {
        let plan = plan_without(&[]);
        let task = |id: &str| plan.tasks.iter().find(|task| task.id().0 == id).unwrap();
        let init = BTreeSet::from(["control-plane/init@node1"]);
        let kubeconfig: &Task = task("cluster/kubeconfig@node1");
        assert_eq!(ids(&kubeconfig.after), init);
        assert!(kubeconfig.after_end.is_empty());
        let secrets = task("cluster/join-secrets@node1");
        assert_eq!(ids(&secrets.after), init);
        assert!(ids(&secrets.after_end).contains("worker/join@node2"));
    }

    #[test]
    fn absent_worker_has_no_tasks_and_no_task_waits_for_it() {
        let plan = plan_without(&["node2"]);
        assert!(plan.tasks.iter().all(|task| task.host.as_str() == "node1"));
        Graph::new(&plan).unwrap();
        let with = plan_without(&[]).tasks;
        let of_node1 = with.iter().filter(|task| task.host.as_str() == "node1");
        // The others keep all of their tasks, apart from the token that only the absent worker needs.
        let mut expected: BTreeSet<TaskId> = of_node1.map(Task::id).collect();
        let left: BTreeSet<TaskId> = plan.tasks.iter().map(Task::id).collect();
        expected.retain(|id| !id.0.starts_with("control-plane/secrets"));
        assert_eq!(left, expected);
    }

    /// Returns the steps of a plan with these sections in the cluster file, as `task: step`.
    fn steps(sections: &str) -> Vec<String> {
        with_inputs(&cluster("", sections), &FLANNEL, "", |inputs| {
            let tasks = crate::plan(inputs).unwrap().plan.tasks;
            let steps = tasks.iter().flat_map(|task| {
                let steps = task.steps.iter();
                steps.map(move |step| format!("{}: {}", task.id().0, step.id()))
            });
            steps.collect()
        })
    }

    #[test]
    fn profile_cis_adds_what_kube_bench_checks() {
        let expected = [
            "cluster/accounts@node1: default service accounts",
            "kubernetes/programs@node1: user etcd",
            "control-plane/init@node1: etcd folder owner",
        ];
        let (with, without) = (steps("security: {profile: cis}"), steps(""));
        for step in expected {
            let has = |steps: &[String]| steps.iter().any(|found| found == step);
            assert!(has(&with), "{step} is missing in {with:#?}");
            assert!(!has(&without), "{step}");
        }
        // Workers have no member of etcd.
        let of_worker = |step: &&String| step.contains("@node2") && step.contains("etcd");
        assert_eq!(with.iter().find(of_worker), None);
    }

    /// An install did not start a kubelet that was stopped after the node had joined.
    #[test]
    fn kubelet_of_every_node_runs_after_it_joined() {
        let steps = steps("");
        let at = |step: &str| steps.iter().position(|found| found == step);
        for (task, command) in [
            ("control-plane/init@node1", "once kubeadm-init"),
            ("worker/join@node2", "once kubeadm-join"),
        ] {
            let kubeadm = at(&format!("{task}: {command}"));
            let kubelet = at(&format!("{task}: kubelet runs"));
            assert!(kubeadm.is_some() && kubeadm < kubelet, "{steps:#?}");
        }
    }
}
