//! kubeadm, kubelet and kubectl on a node.

use std::sync::Arc;

use crate::runtime::Runtime;
use crate::{BIN, DeployError, Inputs, binary, etcd, kubernetes, os, runtime};
use kubexm_config::cluster::{Etcd, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, OwnFolders, WriteFile};
use kubexm_render::kubelet;
use kubexm_types::HostPath;

const KUBELET: &str = "/usr/local/bin/kubelet";

/// Where the kubelet and pods keep data.
const FOLDERS: [&str; 7] = [
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/log/pods",
    "/var/log/containers",
    "/usr/libexec/kubernetes",
    "/run/flannel",
    // kube-proxy mounts it and has it made where it is not there.
    "/lib/modules",
];

/// Puts kubeadm, kubelet and kubectl onto a node.
pub(super) fn programs(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let mut payloads = Vec::new();
    for name in ["kubeadm", "kubelet", "kubectl"] {
        let file = inputs.kubernetes_file(name, &host.name)?;
        payloads.push(binary(file, &format!("{BIN}/{name}"))?);
    }
    let mut folders = FOLDERS.to_vec();
    if matches!(inputs.cluster.etcd, Etcd::Kubeadm { .. }) {
        folders.push("/var/lib/etcd");
    }
    let folders = OwnFolders::new("kubernetes-folders", "Kubernetes' folders", &folders)?;
    let [unit, drop_in] = unit_files(runtime::of_cluster(inputs))?;
    let task = kubernetes::PROGRAMS
        .task(&host.name)
        .after([os::PREPARE.id(&host.name)])
        .step(folders)
        .step(InstallFiles {
            title: format!("Kubernetes {}", inputs.cluster.kubernetes.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(unit)
        .step(drop_in)
        // kubeadm starts it, when there is something to run.
        .step(ManageUnit {
            name: "kubelet.service".to_owned(),
            files: Vec::new(),
            start: false,
        });
    if !inputs.cluster.is_control_plane(&host.name) {
        return Ok(task);
    }
    let client_files = etcd::client_files(inputs)?;
    Ok(client_files.into_iter().fold(task, Task::step))
}

/// The kubelet's unit and kubeadm's drop-in for it.
fn unit_files(runtime: &dyn Runtime) -> Result<[WriteFile; 2], DeployError> {
    let binary = || KUBELET.to_owned();
    let service = kubelet::Service {
        command: binary(),
        runtime: runtime.unit().to_owned(),
    };
    let unit = kubexm_render::text("kubelet unit", &service)?;
    let drop_in = kubexm_render::text("kubelet drop-in", &kubelet::DropIn { binary: binary() })?;
    let path = "/etc/systemd/system/kubelet.service";
    Ok([
        WriteFile::new(HostPath::parse(path)?, unit),
        WriteFile::new(
            HostPath::parse(&format!("{path}.d/10-kubeadm.conf"))?,
            drop_in,
        ),
    ])
}
