//! etcd, from the view of kubeadm: the section of its configuration, and the data of the member that it runs.

use crate::etcd;
use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, Undo};
use kubexm_render::kubeadm::{EtcdSection, ExternalEtcd};
use kubexm_scripts::etcd as scripts;
use kubexm_scripts::undo::ETCD_FOLDER_RESTORE;

/// The directory of the data, kubeadm's default.
pub(super) const DATA: &str = "/var/lib/etcd";

/// Returns whether the directory of the data belongs to the user etcd, as CIS 1.1.12 asks for. Otherwise it belongs to
/// root.
pub(super) fn gives_data_to_user(cluster: &Cluster, host: &HostSpec) -> bool {
    let has_member =
        matches!(cluster.etcd, Etcd::Kubeadm { .. }) && cluster.is_control_plane(&host.name);
    has_member && cluster.security.is_cis()
}

/// Adds the step that gives the directory to the user etcd. The member keeps running as root, which can use the
/// directories of all users: kubeadm's `RootlessControlPlane` is deprecated, and gives keys to other users.
pub(super) fn own_data(cluster: &Cluster, host: &HostSpec, task: Task) -> Task {
    if !gives_data_to_user(cluster, host) {
        return task;
    }
    let step = RunScript::new(
        "etcd folder owner",
        format!("Give {DATA} to the user {}", etcd::USER),
        scripts::FOLDER_OWNER.verb("check"),
        scripts::FOLDER_OWNER.verb("apply"),
    );
    task.step(
        step.arguments([DATA])
            .undo(Undo::run(ETCD_FOLDER_RESTORE, [DATA])),
    )
}

/// Returns the connection to an etcd that kubeadm does not run; `None` if kubeadm runs etcd.
pub(super) fn external(cluster: &Cluster) -> Option<ExternalEtcd> {
    let client = etcd::client(cluster, &cluster.roles.control_plane)?;
    Some(ExternalEtcd {
        endpoints: client.endpoints,
        ca_file: client.ca_file.to_owned(),
        cert_file: client.cert_file.to_owned(),
        key_file: client.key_file.to_owned(),
    })
}

/// Returns whether kubeadm runs a member of etcd on each control plane.
pub(super) fn is_stacked(cluster: &Cluster) -> bool {
    matches!(cluster.etcd, Etcd::Kubeadm { .. })
}

/// Returns the `etcd` section of kubeadm's configuration.
pub(super) fn section(cluster: &Cluster) -> EtcdSection {
    match (external(cluster), &cluster.etcd) {
        (Some(external), _) => EtcdSection::External(external),
        (None, Etcd::Kubeadm { extra_args }) => EtcdSection::Local {
            args: extra_args.clone(),
        },
        (None, _) => EtcdSection::Local {
            args: Default::default(),
        },
    }
}
