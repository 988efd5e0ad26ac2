//! Settings of programs on nodes that exist: kubeadm generates the files as for a new node, and the files that differ are
//! replaced on one node after another.
//!
//! kubelets change first. The API servers may then verify the certificates that the kubelets request. The cluster stores
//! the settings for later nodes last, so that a node that joins meanwhile gets settings that work.

use std::time::Duration;

use super::init::{init_config, node_config, yes_or_no};
use crate::etcd::CLIENT_CA;
use crate::kubernetes::config::kube_proxy_config;
use crate::{DeployError, Inputs, kubernetes};
use kubexm_config::cluster::{Etcd, HostSpec};
use kubexm_engine::Limit;
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_engine::steps::RunScript;
use kubexm_scripts::kubeadm;
use kubexm_types::Digest;

/// How long the programs of a node may take to become healthy: five minutes each, and once more with their former
/// settings.
const LIMIT: Limit = Limit::new(Duration::from_secs(2400), "the programs of a node");

/// The id of the step that compares the flags of etcd.
pub(crate) const ETCD_SETTINGS: &str = "etcd settings";

/// The programs of a node whose settings one step applies.
#[derive(Clone, Copy)]
enum Scope {
    Kubelet,
    /// API server, controller manager and scheduler.
    ControlPlane,
    /// etcd as a static pod: the script only compares its flags.
    Etcd,
}

impl Scope {
    /// Returns the name that the script expects.
    fn name(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::ControlPlane => "control-plane",
            Self::Etcd => "etcd",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Kubelet => "Apply the kubelet's settings",
            Self::ControlPlane => {
                "Apply the settings of API server, controller manager and scheduler"
            }
            Self::Etcd => "Compare the flags of etcd",
        }
    }

    fn arguments(self, host: &HostSpec, config: String) -> kubeadm::Settings {
        kubeadm::Settings {
            scope: self.name().to_owned(),
            node: host.name.to_string(),
            config,
        }
    }

    /// Returns the step for a node, with the configuration from which kubeadm would generate its files.
    fn step(self, host: &HostSpec, config: String) -> RunScript {
        let step = RunScript::new(
            &format!("{} settings", self.name()),
            self.title(),
            kubeadm::SETTINGS.verb("check"),
            kubeadm::SETTINGS.verb("apply"),
        );
        let step = step.arguments(self.arguments(host, config));
        match self {
            Self::Kubelet | Self::ControlPlane => step.limit(LIMIT),
            Self::Etcd => step,
        }
    }
}

/// Returns the step that gives the kubelet of a node the settings of the cluster file.
pub(super) fn of_kubelet(host: &HostSpec, config: String) -> RunScript {
    Scope::Kubelet.step(host, config)
}

/// Returns the step that writes them into its files, before another step restarts it.
pub(super) fn files_of_kubelet(host: &HostSpec, config: String) -> RunScript {
    let step = RunScript::new(
        "kubelet files",
        "Write the kubelet's settings, which it reads when it starts",
        kubeadm::SETTINGS.verb("written"),
        kubeadm::SETTINGS.verb("write"),
    );
    step.arguments(Scope::Kubelet.arguments(host, config))
}

/// Returns the tasks that configure the kubelets of all nodes, one after another; none for a new cluster, because `kubeadm init`
/// and `join` configure its nodes.
pub(super) fn kubelets(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    if !inputs.cluster_exists() {
        return Ok(Vec::new());
    }
    let nodes = inputs.nodes();
    let joined = nodes.iter().map(|host| kubernetes::joined(inputs, host));
    let name = kubernetes::KUBELET_SETTINGS;
    chain(inputs, &nodes, joined.collect(), name, &[Scope::Kubelet])
}

/// Returns the tasks that configure the static pods of all control planes, one after another; none for a new cluster.
pub(super) fn control_planes(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first().filter(|_| inputs.cluster_exists()) else {
        return Ok(Vec::new());
    };
    let mut nodes = inputs.nodes();
    nodes.retain(|host| inputs.cluster.is_control_plane(&host.name));
    let admitted = vec![kubernetes::ADMIT.id(&first.name)];
    let mut scopes = vec![Scope::ControlPlane];
    if matches!(inputs.cluster.etcd, Etcd::Kubeadm { .. }) {
        scopes.push(Scope::Etcd);
    }
    let name = kubernetes::CONTROL_PLANE_SETTINGS;
    let mut tasks = chain(inputs, &nodes, admitted, name, &scopes)?;
    if matches!(inputs.cluster.etcd, Etcd::External { .. }) {
        let tasks_with_step = tasks.into_iter().map(|task| task.step(compare_etcd_ca()));
        tasks = tasks_with_step.collect();
    }
    Ok(tasks)
}

/// Returns a task of this name for each node. The first one runs after `before`, and every other one after that of the
/// node before.
fn chain(
    inputs: &Inputs<'_>,
    nodes: &[&HostSpec],
    mut before: Vec<TaskId>,
    name: TaskName,
    scopes: &[Scope],
) -> Result<Vec<Task>, DeployError> {
    let mut tasks = Vec::new();
    for host in nodes {
        let config = node_config(inputs, host)?;
        let mut task = name.task(&host.name).after(before);
        for scope in scopes {
            task = task.step(scope.step(host, config.clone()));
        }
        before = vec![task.id()];
        tasks.push(task);
    }
    Ok(tasks)
}

/// Returns the task that stores the settings in the cluster, after all nodes have them.
pub(super) fn stored(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    after: Vec<TaskId>,
) -> Result<Task, DeployError> {
    let config = init_config(inputs.cluster, first)?;
    let kube_proxy = kube_proxy_config(inputs.cluster, None)?;
    let apply = if inputs.cluster_exists() {
        "apply"
    } else {
        "mark"
    };
    let step = RunScript::new(
        "stored settings",
        "Store the settings for nodes that join later, and apply those of kube-proxy",
        kubeadm::CLUSTER_SETTINGS.verb("check"),
        kubeadm::CLUSTER_SETTINGS.verb(apply),
    );
    let digest = |text: &str| Digest::of(text.as_bytes()).hex();
    let step = step.limit(LIMIT).arguments(kubeadm::ClusterSettings {
        digest: digest(&config),
        proxy_digest: digest(&kube_proxy),
        config,
    });
    let task = kubernetes::STORED_SETTINGS
        .task(&first.name)
        .after([kubernetes::ADMIT.id(&first.name)])
        .after(after)
        .step(step);
    Ok(if inputs.cluster_exists() {
        task.step(compare_kube_proxy(inputs))
    } else {
        task
    })
}

/// Returns the step that reports a kube-proxy that the cluster file does not want, or that is missing.
fn compare_kube_proxy(inputs: &Inputs<'_>) -> RunScript {
    let skipped = &inputs.cluster.kubernetes.kubeadm.skip_phases.init;
    let is_wanted = !skipped.iter().any(|phase| phase == "addon/kube-proxy");
    RunScript::new(
        "kube-proxy phase",
        "Compare kube-proxy with the phases that kubeadm skips",
        kubeadm::KUBE_PROXY.verb("check"),
        kubeadm::KUBE_PROXY.verb("check"),
    )
    .arguments([yes_or_no(is_wanted)])
}

/// Returns the step that reports an API server with a former CA of an etcd that exists outside of the cluster.
fn compare_etcd_ca() -> RunScript {
    RunScript::new(
        "etcd ca of the api server",
        "Compare the CA of etcd with that of the API server",
        kubeadm::ETCD_CA.verb("check"),
        kubeadm::ETCD_CA.verb("check"),
    )
    .arguments([CLIENT_CA])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{cluster, with_inputs};

    const FLANNEL: [&str; 2] = [
        "ghcr.io/flannel-io/flannel:v0.28.4",
        "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
    ];

    /// Returns the tasks with settings in a plan for a control plane `node1` and a worker `node2`, each with the tasks
    /// that must succeed first.
    fn settings(is_node: bool) -> Vec<(String, Vec<String>)> {
        with_inputs(&cluster("", ""), &FLANNEL, "", |inputs| {
            let mut hosts = inputs.hosts.clone();
            for facts in hosts.values_mut() {
                facts.is_node = is_node;
            }
            let inputs = Inputs {
                hosts,
                ..inputs.clone()
            };
            let tasks = crate::plan(&inputs).unwrap().plan.tasks.into_iter();
            let settings = tasks.filter(|task| task.name.contains("settings"));
            settings
                .map(|task| {
                    let after = task.after.iter().map(|id| id.0.clone());
                    (task.id().0, after.collect())
                })
                .collect()
        })
    }

    #[test]
    fn nodes_that_exist_are_configured_one_after_another() {
        let found = settings(true);
        let after = |task: &str| -> Vec<&str> {
            let (_, after) = found.iter().find(|(id, _)| id == task).unwrap();
            after.iter().map(String::as_str).collect()
        };
        assert_eq!(
            after("kubernetes/kubelet-settings@node1"),
            ["control-plane/init@node1", "worker/join@node2"]
        );
        assert_eq!(
            after("kubernetes/kubelet-settings@node2"),
            ["kubernetes/kubelet-settings@node1"]
        );
        assert_eq!(after("control-plane/settings@node1"), ["nodes/admit@node1"]);
        assert_eq!(
            after("control-plane/stored-settings@node1"),
            ["nodes/admit@node1", "control-plane/settings@node1"]
        );
    }

    #[test]
    fn new_nodes_have_their_settings_from_kubeadm() {
        let found = settings(false);
        let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["control-plane/stored-settings@node1"]);
    }
}
