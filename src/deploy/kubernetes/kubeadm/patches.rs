//! What the user changes in what kubeadm writes: files in a folder that `kubeadm init` and `join` read.

use super::read_once;
use crate::DeployError;
use kubexm_config::cluster::{Cluster, HostSpec, Patch, PatchFile, PatchTarget};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, WriteFile};
use kubexm_scripts::kubeadm;
use kubexm_types::HostPath;

/// Where kubeadm finds them on a host.
pub(crate) const FOLDER: &str = "/etc/kubexm/patches";

/// The folder of patches for a host; `None` where it needs none.
pub(super) fn folder(cluster: &Cluster, host: &HostSpec) -> Option<&'static str> {
    let any = !files(cluster, host).is_empty();
    any.then_some(FOLDER)
}

/// The patches for a host, in their order.
pub(crate) fn files(cluster: &Cluster, host: &HostSpec) -> Vec<PatchFile> {
    let control_plane = cluster.is_control_plane(&host.name);
    let is_used = |patch: &Patch| {
        patch.is_for(&host.name) && (control_plane || patch.target == PatchTarget::Kubelet)
    };
    let patches = cluster.kubernetes.patches.iter().enumerate();
    patches
        .filter(|(_, patch)| is_used(patch))
        .map(|(at, patch)| patch.file(at))
        .collect()
}

/// Adds the steps that put them onto a host, where the command of that mark reads them.
pub(super) fn write(
    cluster: &Cluster,
    host: &HostSpec,
    by: &str,
    mut task: Task,
) -> Result<Task, DeployError> {
    let files = files(cluster, host);
    if files.is_empty() {
        return Ok(task);
    }
    for file in &files {
        let path = HostPath::parse(&format!("{FOLDER}/{}", file.name))?;
        task = task.step(read_once(by, WriteFile::new(path, &*file.content)));
    }
    let names = files.into_iter().map(|file| file.name);
    Ok(task.step(
        RunScript::new(
            "kubeadm patches",
            "Remove patches that the cluster file does not have",
            kubeadm::PATCHES.verb("check"),
            kubeadm::PATCHES.verb("remove"),
        )
        .arguments([FOLDER.to_owned()].into_iter().chain(names)),
    ))
}
