//! Patches of the user for kubeadm's output: files in a directory that `kubeadm init` and `join` read.

use crate::DeployError;
use kubexm_config::cluster::{Cluster, HostSpec, Patch, PatchFile, PatchTarget};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{ConfigReadAtInit, RunScript, WriteFile};
use kubexm_scripts::kubeadm;
use kubexm_types::HostPath;

/// The directory of the patches on a host.
pub(crate) const FOLDER: &str = "/etc/kubexm/patches";

/// Returns the directory of patches for a host; `None` if the host has no patches.
pub(super) fn folder(cluster: &Cluster, host: &HostSpec) -> Option<&'static str> {
    let any = !files(cluster, host).is_empty();
    any.then_some(FOLDER)
}

/// Returns the patches for a host, in the order in which kubeadm applies them.
pub(crate) fn files(cluster: &Cluster, host: &HostSpec) -> Vec<PatchFile> {
    let control_plane = cluster.is_control_plane(&host.name);
    let is_used = |patch: &Patch| {
        patch.is_for(&host.name) && (control_plane || patch.target == PatchTarget::Kubelet)
    };
    let patches = cluster.kubernetes.kubeadm.patches.iter().enumerate();
    patches
        .filter(|(_, patch)| is_used(patch))
        .map(|(at, patch)| patch.file(at))
        .collect()
}

/// Adds the steps that write the patches of a host for the command with the marker file `marker`.
pub(super) fn write(
    cluster: &Cluster,
    host: &HostSpec,
    marker: &str,
    mut task: Task,
) -> Result<Task, DeployError> {
    let files = files(cluster, host);
    if files.is_empty() {
        return Ok(task);
    }
    for file in &files {
        let path = HostPath::parse(&format!("{FOLDER}/{}", file.name))?;
        let target = file.target;
        let file = WriteFile::new(path, &*file.content);
        task = match target {
            // kubexm does not change these two where they exist.
            PatchTarget::Etcd | PatchTarget::CoreDns => {
                task.step(config_read_at_init(marker, file))
            }
            PatchTarget::ApiServer
            | PatchTarget::ControllerManager
            | PatchTarget::Scheduler
            | PatchTarget::Kubelet => task.step(file),
        };
    }
    let names = files.into_iter().map(|file| file.name);
    Ok(task.step(
        RunScript::new(
            "kubeadm patches",
            "Remove patches that are not in the cluster file",
            kubeadm::PATCHES.verb("check"),
            kubeadm::PATCHES.verb("remove"),
        )
        .arguments([FOLDER.to_owned()].into_iter().chain(names)),
    ))
}

/// Returns the step for a file that the kubeadm command with the marker file `marker` reads.
fn config_read_at_init(marker: &str, file: WriteFile) -> ConfigReadAtInit {
    ConfigReadAtInit {
        file,
        marker: marker.to_owned(),
        advice: "To apply the change, follow \
                 https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-reconfigure/"
            .to_owned(),
    }
}
