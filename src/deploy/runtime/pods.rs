//! Pods of a host whose containerd gets another major or minor version: all of them end before.

use std::time::Duration;

use kubexm_config::cluster::HostSpec;
use kubexm_engine::Limit;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::RunScript;
use kubexm_scripts::runtime::CONTAINERD_PODS;
use kubexm_types::Version;

/// How long pods may take to end.
const END: Limit = Limit::new(Duration::from_secs(900), "the end of all pods of a host");
/// How long static pods may take until they answer again.
const RETURN: Limit = Limit::new(Duration::from_secs(900), "the static pods of a host");

/// Lets the task that installs containerd end all pods of the host before, and start the kubelet afterwards. Both happen only
/// if the host has another major or minor version.
pub(super) fn end_around(host: &HostSpec, version: &Version, task: &mut Task) {
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
    let start = start.arguments([host.name.to_string()]).limit(RETURN);
    task.steps.push(start.into());
}
