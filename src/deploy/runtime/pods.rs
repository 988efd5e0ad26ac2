//! Pods of a host whose containerd gets another major or minor version: all of them end before.

use std::time::Duration;

use crate::{Inputs, health, journal, kubernetes};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::Limit;
use kubexm_engine::plan::{Step, Task};
use kubexm_engine::steps::{RunScript, WaitFor};
use kubexm_scripts::runtime::CONTAINERD_PODS;
use kubexm_types::Version;

/// How long pods may take to end.
const END: Limit = Limit::new(Duration::from_secs(600), "the end of all pods of a host");
/// How long static pods may take until they answer again.
const RETURN: Duration = Duration::from_secs(240);
/// Whether the node with the name of the argument is Ready.
const READY: &str = "[ \"$(/usr/local/bin/kubectl --kubeconfig /etc/kubernetes/kubelet.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=10s get node \"$1\" -o 'jsonpath={.status.conditions[?(@.type==\"Ready\")].status}')\" = True ]";

/// Lets the task that installs containerd end all pods of the host before, and start the kubelet afterwards. Both happen only
/// if the host has another major or minor version.
pub(super) fn end_around(inputs: &Inputs<'_>, host: &HostSpec, version: &Version, task: &mut Task) {
    let cluster = inputs.cluster;
    let end = RunScript::new(
        "end pods",
        "End all pods if containerd gets another minor version",
        CONTAINERD_PODS.verb("ended"),
        CONTAINERD_PODS.verb("end"),
    );
    task.steps
        .insert(0, end.arguments([version.to_string()]).limit(END).into());
    let start = RunScript::new(
        "kubelet after containerd",
        "Start the kubelet after containerd",
        CONTAINERD_PODS.verb("started"),
        CONTAINERD_PODS.verb("start"),
    );
    task.steps.push(start.into());
    if kubernetes::is_kubeadm(cluster) && cluster.is_control_plane(&host.name) {
        let programs = health::control_plane(cluster).into_iter();
        let programs = programs.chain(health::etcd(cluster)).collect();
        let title = format!("Wait until the static pods of {} answer", host.name);
        task.steps
            .push(health::wait(title, programs, RETURN).into());
        task.steps.push(ready(host));
    }
}

/// kubeadm refuses a node that is not Ready.
fn ready(host: &HostSpec) -> Step {
    WaitFor {
        title: format!("Wait until the node {} is Ready", host.name),
        script: READY.into(),
        arguments: vec![host.name.to_string()],
        at_most: RETURN,
        diagnosis: journal("kubelet.service", 20),
        hosts: Vec::new(),
    }
    .into()
}
