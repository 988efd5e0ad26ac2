//! kubeadm, kubelet and kubectl on a node.

use std::sync::Arc;

use super::etcd;
use crate::deploy::{BIN, DeployError, Inputs, binary, id};
use crate::plan::Task;
use crate::render::{self, kubelet};
use crate::spec::HostPath;
use crate::spec::cluster::HostSpec;
use crate::steps::{InstallFiles, ManageUnit, OwnFolders, WriteFile};

const KUBELET: &str = "/usr/local/bin/kubelet";

/// Where the kubelet, etcd and pods keep data.
const FOLDERS: [&str; 8] = [
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/lib/etcd",
    "/var/log/pods",
    "/var/log/containers",
    "/usr/libexec/kubernetes",
    "/run/flannel",
    // kube-proxy mounts it and has it made where it is not there.
    "/lib/modules",
];

/// Puts kubeadm, kubelet and kubectl onto a node.
pub(in crate::deploy) fn programs(
    inputs: &Inputs<'_>,
    host: &HostSpec,
) -> Result<Task, DeployError> {
    let mut payloads = Vec::new();
    for name in ["kubeadm", "kubelet", "kubectl"] {
        payloads.push(binary(
            inputs.kubernetes_file(name, &host.name)?,
            &format!("{BIN}/{name}"),
        )?);
    }
    let unit = HostPath::parse("/etc/systemd/system/kubelet.service")?;
    let drop_in = HostPath::parse("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf")?;
    let unit_text = render::text(
        "kubelet unit",
        &kubelet::Service {
            binary: KUBELET.to_owned(),
        },
    )?;
    let drop_in_text = render::text(
        "kubelet drop-in",
        &kubelet::DropIn {
            binary: KUBELET.to_owned(),
        },
    )?;
    let task = Task::new("kubernetes", "programs", &host.name)
        .after([id("os", "prepare", &host.name)])
        .step(OwnFolders::new(
            "kubernetes-folders",
            "the kubelet's and etcd's folders",
            &FOLDERS,
        )?)
        .step(InstallFiles {
            title: format!("Kubernetes {}", inputs.cluster.kubernetes.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(WriteFile::new(unit, unit_text))
        .step(WriteFile::new(drop_in, drop_in_text))
        // kubeadm starts it, when there is something to run.
        .step(ManageUnit {
            name: "kubelet.service".to_owned(),
            files: Vec::new(),
            start: false,
        });
    let external = if inputs.cluster.is_control_plane(&host.name) {
        etcd::client_files(inputs.cluster)?
    } else {
        Vec::new()
    };
    Ok(external.into_iter().fold(task, Task::step))
}
