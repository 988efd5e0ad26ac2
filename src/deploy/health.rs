//! The last check of an install: all units of a host run, and the programs of Kubernetes answer their health checks.
//!
//! systemd counts a unit as started as soon as its process exists, so a program that ends at once, as after a wrong
//! flag, is found here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kubexm_config::cluster::{Cluster, Component, Etcd, HostSpec, PatchTarget};
use kubexm_config::ports;
use kubexm_engine::plan::{About, Task, TaskName};
use kubexm_engine::steps::WaitFor;
use kubexm_scripts::systemd::HEALTHY;
use kubexm_types::HostName;

use super::module::Module;
use super::{DeployError, Deployment, Inputs};

/// Checks the units of a host.
const HEALTH: TaskName = TaskName::new("host", "health");
/// How long all programs of a host may take until they answer.
const AT_MOST: Duration = Duration::from_secs(180);
/// kubeadm's phase that deploys kube-proxy.
const KUBE_PROXY_PHASE: &str = "addon/kube-proxy";

/// The health of every host. It is the last module, because it checks the units of all others.
pub(super) struct Health;

impl Module for Health {
    fn tasks(
        &self,
        inputs: &Inputs<'_>,
        deployment: &Deployment,
    ) -> Result<Vec<Task>, DeployError> {
        let mut units: BTreeMap<&HostName, BTreeSet<String>> = BTreeMap::new();
        for task in &deployment.plan.tasks {
            let ids = task.steps.iter().map(kubexm_engine::plan::Step::id);
            let names = ids.filter_map(|id| id.strip_prefix("unit ").map(str::to_owned));
            units.entry(&task.host).or_default().extend(names);
        }
        let hosts = inputs.cluster.hosts.iter();
        let tasks = hosts.filter_map(|host| {
            let mut checked: Vec<String> = units.remove(&host.name)?.into_iter().collect();
            checked.extend(programs(inputs.cluster, host));
            let of_host = deployment.plan.tasks.iter();
            let of_host = of_host.filter(|task| task.host == host.name);
            let task = HEALTH.task(&host.name).after(of_host.map(Task::id));
            let title = format!("Wait until all programs of {} are healthy", host.name);
            (!checked.is_empty()).then(|| task.step(wait(title, checked, AT_MOST)))
        });
        Ok(tasks.collect())
    }
}

/// Returns the step that waits until units run and programs answer.
pub(super) fn wait(title: String, checked: Vec<String>, at_most: Duration) -> WaitFor {
    let is_of_kubelet = |name: &String| name == "kubelet.service" || name.starts_with("kubelet=");
    let about = if checked.iter().any(is_of_kubelet) {
        About::OwnKubelet
    } else {
        About::Other
    };
    WaitFor {
        title,
        script: HEALTHY.verb("check"),
        diagnosis: HEALTHY.verb("diagnose").with(checked.clone()),
        arguments: checked,
        at_most,
        about,
    }
}

/// Returns the programs of Kubernetes on a host with the URLs of their health checks.
pub(super) fn programs(cluster: &Cluster, host: &HostSpec) -> Vec<String> {
    let mut programs = Vec::new();
    if cluster.is_control_plane(&host.name) {
        programs.extend(control_plane(cluster));
    }
    if !cluster.is_node(&host.name) {
        return programs;
    }
    let kubernetes = &cluster.kubernetes;
    let has = |settings: &serde_json::Value, name: &str| settings.get(name).is_some();
    let mut patches = kubernetes.kubeadm.patches.iter();
    let is_own_kubelet = patches.any(|patch| patch.target == PatchTarget::Kubelet)
        || has(&kubernetes.kubelet.extra_config, "healthzPort")
        || has(&kubernetes.kubelet.extra_config, "healthzBindAddress");
    if !is_own_kubelet {
        programs.push(format!(
            "kubelet=http://127.0.0.1:{}/healthz",
            ports::KUBELET_HEALTH
        ));
    }
    let skipped = &kubernetes.kubeadm.skip_phases.init;
    let is_skipped = skipped.iter().any(|phase| phase == KUBE_PROXY_PHASE);
    if !is_skipped
        && !has(
            &kubernetes.kube_proxy.component.extra_config,
            "healthzBindAddress",
        )
    {
        programs.push(format!(
            "kube-proxy=http://127.0.0.1:{}/healthz",
            ports::KUBE_PROXY_HEALTH
        ));
    }
    programs
}

/// Returns the controller manager and the scheduler with the URLs of their health checks.
pub(super) fn control_plane(cluster: &Cluster) -> [String; 2] {
    let kubernetes = &cluster.kubernetes;
    [
        (
            "kube-controller-manager",
            &kubernetes.controller_manager,
            ports::CONTROLLER_MANAGER,
        ),
        ("kube-scheduler", &kubernetes.scheduler, ports::SCHEDULER),
    ]
    .map(|(name, component, port)| {
        let address = loopback(component);
        format!("{name}=https://{address}:{port}/healthz")
    })
}

/// Returns kubeadm's etcd with the URL of its health check on its own host; `None` if kubeadm runs none, or if the user
/// moved the check.
pub(super) fn etcd(cluster: &Cluster) -> Option<String> {
    match &cluster.etcd {
        Etcd::Kubeadm { extra_args, .. } if !extra_args.contains_key("listen-metrics-urls") => {
            Some(format!(
                "etcd=http://127.0.0.1:{}/health",
                ports::ETCD_METRICS
            ))
        }
        _ => None,
    }
}

/// Returns the address at which a program answers on its own host.
fn loopback(component: &Component) -> String {
    let given = component.extra_args.get("bind-address");
    match given.map(String::as_str) {
        None | Some("0.0.0.0" | "::") => "127.0.0.1".to_owned(),
        Some(address) if address.contains(':') => format!("[{address}]"),
        Some(address) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::with_inputs;

    const FLANNEL: [&str; 2] = [
        "ghcr.io/flannel-io/flannel:v0.28.4",
        "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
    ];

    fn programs_of(kubernetes: &str) -> [String; 2] {
        let cluster = crate::example::cluster(kubernetes, "");
        [0, 1].map(|at| programs(&cluster, &cluster.hosts[at]).join(" "))
    }

    #[test]
    fn programs_are_asked_where_they_listen() {
        let node =
            "kubelet=http://127.0.0.1:10248/healthz kube-proxy=http://127.0.0.1:10256/healthz";
        let [control_plane, worker] = programs_of("");
        assert_eq!(worker, node);
        let both = "kube-controller-manager=https://127.0.0.1:10257/healthz \
                    kube-scheduler=https://127.0.0.1:10259/healthz";
        assert_eq!(control_plane, format!("{both} {node}"));
        let [control_plane, _] = programs_of(
            "controllerManager: {extraArgs: {bind-address: 0.0.0.0}}, \
             scheduler: {extraArgs: {bind-address: \"fd00::1\"}}, \
             kubelet: {extraConfig: {healthzPort: 1}}, \
             kubeadm: {skipPhases: {init: [addon/kube-proxy]}}",
        );
        let moved = "kube-controller-manager=https://127.0.0.1:10257/healthz \
                     kube-scheduler=https://[fd00::1]:10259/healthz";
        assert_eq!(control_plane, moved);
    }

    #[test]
    fn every_unit_that_kubexm_starts_is_checked_on_its_host() {
        let cluster = crate::example::cluster("", "");
        let plan = with_inputs(&cluster, &FLANNEL, "", |inputs| {
            crate::plan(inputs).unwrap().plan
        });
        for host in &cluster.hosts {
            let task = plan
                .tasks
                .iter()
                .find(|task| task.id() == HEALTH.id(&host.name));
            let task = task.unwrap();
            let others = plan.tasks.iter().filter(|other| other.host == host.name);
            assert_eq!(task.after.len() + 1, others.count());
            assert_eq!(task.steps.len(), 1);
        }
    }
}
