//! What `kubeadm init` and `kubeadm join` have in common: how a host becomes a node.

use std::time::Duration;

use crate::{kubernetes, runtime};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::Limit;
use kubexm_engine::plan::TaskId;
use kubexm_engine::steps::RunScript;
use kubexm_render::kubeadm::Node;
use kubexm_scripts::kubernetes as scripts;

/// How long kubeadm may run. It waits four minutes each for the kubelet and for the control plane, and five for a
/// certificate; a slow host needs several times as long.
pub(super) const LIMIT: Limit = Limit::new(Duration::from_secs(1800), "kubeadm");

/// Files that kubeadm writes with a mode with which every user of the host can read them.
const FILES: [&str; 3] = [
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/instance-config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
];

/// Returns the step that makes files of kubeadm readable by root only. kubeadm keeps the mode when it writes them
/// again.
pub(super) fn file_modes() -> RunScript {
    RunScript::new(
        "kubeadm file modes",
        "Protect the kubelet's configuration",
        scripts::FILE_MODES.verb("check"),
        scripts::FILE_MODES.verb("apply"),
    )
    .arguments(FILES)
}

/// Returns the step that starts the kubelet of a node again. kubeadm starts it only when the node joins, and a restart of
/// one that runs is not necessary.
pub(super) fn kubelet_runs() -> RunScript {
    RunScript::new(
        "kubelet runs",
        "Start the kubelet",
        "systemctl is-active --quiet kubelet.service || { echo 'it does not run'; exit 1; }",
        "systemctl start kubelet.service",
    )
}

/// Returns the tasks that prepare a host for `kubeadm init` or `kubeadm join`.
pub(super) fn tasks_before_join(host: &HostSpec) -> [TaskId; 2] {
    [
        runtime::PULL.id(&host.name),
        kubernetes::PROGRAMS.id(&host.name),
    ]
}

/// Returns what the configurations of init and join say of a host as a node.
pub(super) fn node(cluster: &Cluster, host: &HostSpec) -> Node {
    let mut kubelet_args = cluster.kubernetes.kubelet.extra_args.clone();
    kubelet_args.insert("node-ip".to_owned(), host.internal_addresses.to_string());
    Node {
        name: host.name.to_string(),
        cri_socket: cluster.runtime.kind.properties().socket.to_owned(),
        ignore_preflight_errors: cluster.kubernetes.kubeadm.ignore_preflight_errors.clone(),
        taints: host.taints.clone(),
        kubelet_args,
    }
}
