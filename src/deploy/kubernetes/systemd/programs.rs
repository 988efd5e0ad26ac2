//! Kubernetes' programs on a node, and what is settled before they start.

use std::sync::Arc;

use super::files::CA;
use crate::{BIN, DeployError, Inputs, binary, etcd, kubernetes, os, traces};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, OwnFolders, RunScript, Undo};
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_scripts::kubernetes::SAME_CA;
use kubexm_scripts::marks;
use kubexm_scripts::runtime::STOP_PODS;
use kubexm_types::Digest;

/// Where Kubernetes' programs and pods keep data.
const FOLDERS: [&str; 8] = [
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/log/kubernetes",
    "/var/log/pods",
    "/var/log/containers",
    "/usr/libexec/kubernetes",
    "/run/flannel",
    // Network plugins' pods mount it and have it made where it is not there.
    "/lib/modules",
];

/// Puts a node's programs there.
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
    let digest = Digest::of(pki.ca.certificate.as_bytes()).hex();
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
        .step(OwnFolders::new(
            "kubernetes-folders",
            "the folders of Kubernetes' programs",
            &FOLDERS,
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

/// Records what a reset must undo of what the programs will do; facts see its mark. The step comes after the
/// runtime, so that a reset reverts it while there still is a runtime that ends pods.
pub(super) fn pod_traces() -> RunScript {
    let title = "Take note of pods, links and rules to come";
    RunScript::new("node traces", title, marks::CHECK, marks::SET)
        .arguments(["kubernetes-node"])
        .undo(Undo::script(
            "Remove the mark of a node",
            "rm -f /var/lib/kubexm/done/kubernetes-node",
            [""; 0],
        ))
        .undo(traces::remove("Remove links and rules", "kubernetes"))
        .undo(Undo::script("Stop pods", STOP_PODS, [""; 0]))
}
