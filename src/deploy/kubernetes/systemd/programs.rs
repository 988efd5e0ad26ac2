//! Kubernetes' programs on a node, and the steps before they start.

use std::sync::Arc;

use super::files::CA;
use crate::{BIN, DeployError, Inputs, binary, etcd, kubernetes, os, pod_leftovers};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, RunScript, TrackNewDirs, Undo};
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_scripts::kubernetes::SAME_CA;
use kubexm_scripts::markers;
use kubexm_scripts::undo::{MARKERS_REMOVE, STOP_PODS};
use kubexm_types::Digest;

/// Directories of Kubernetes' programs and of pods.
const DIRS: [&str; 7] = [
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/log/kubernetes",
    "/var/log/pods",
    "/var/log/containers",
    "/usr/libexec/kubernetes",
    // Pods of network plugins mount this directory, and the kubelet creates it if it does not exist.
    "/lib/modules",
];

/// Returns the task that installs the programs of a node.
pub(super) fn programs(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    host: &HostSpec,
) -> Result<Task, DeployError> {
    let mut names = vec!["kubelet", "kube-proxy", "kubectl"];
    let is_control_plane = inputs.cluster.is_control_plane(&host.name);
    if is_control_plane {
        names.extend([
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
        ]);
    }
    let mut payloads = Vec::new();
    for name in names {
        let file = inputs.kubernetes_file(name, &host.name)?;
        payloads.push(binary(file, &format!("{BIN}/{name}"))?);
    }
    let digest = Digest::of(pki.trusted.as_bytes()).hex();
    let same_ca = RunScript::new(
        "cluster CA",
        "Compare the cluster's CA",
        SAME_CA.verb("check"),
        SAME_CA.verb("refuse"),
    );
    let task = kubernetes::PROGRAMS
        .task(&host.name)
        .after([os::PREPARE.id(&host.name)])
        .step(same_ca.arguments([CA.to_owned(), digest]))
        .step(TrackNewDirs::new(
            "kubernetes-folders",
            "Kubernetes' directories",
            &DIRS,
        )?)
        .step(InstallFiles {
            title: format!("Kubernetes {}", inputs.cluster.kubernetes.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        });
    if !is_control_plane {
        return Ok(task);
    }
    let client_files = etcd::client_files(inputs)?;
    Ok(client_files.into_iter().fold(task, Task::step))
}

/// Returns a step that records the undo of the programs' changes. Its marker file is also a fact of the host. The
/// step runs after the runtime is installed, so that a reset reverts it while the runtime can still stop pods.
pub(super) fn register_cleanup() -> RunScript {
    let title = "Record pods, links and rules for a reset";
    RunScript::new("node traces", title, markers::CHECK, markers::SET)
        .arguments(["kubernetes-node"])
        .undo(Undo::run(MARKERS_REMOVE, ["kubernetes-node"]))
        .undo(pod_leftovers::remove("kubernetes"))
        .undo(Undo::run(STOP_PODS, [""; 0]))
}
