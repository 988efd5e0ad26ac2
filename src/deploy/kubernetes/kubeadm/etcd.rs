//! etcd, from the view of kubeadm: the section of its configuration, and the data of the member that it runs.

use crate::etcd;
use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, Undo};
use kubexm_render::kubeadm::{EtcdSection, ExternalEtcd, LocalEtcd};
use kubexm_scripts::etcd as scripts;
use kubexm_scripts::undo::ETCD_FOLDER_RESTORE;

/// Returns true if kubeadm runs a member of etcd on the host.
pub(super) fn has_member(cluster: &Cluster, host: &HostSpec) -> bool {
    matches!(cluster.etcd, Etcd::Kubeadm { .. }) && kubexm_etcd::has_member(cluster, &host.name)
}

/// Returns the data directory of the member that kubeadm runs on the host; empty without one.
pub(super) fn member_directory(cluster: &Cluster, host: &HostSpec) -> String {
    match &cluster.etcd {
        Etcd::Kubeadm { data_dir, .. } if has_member(cluster, host) => data_dir.to_string(),
        _ => String::new(),
    }
}

/// Returns whether the directory of the data belongs to the user etcd, as CIS 1.1.12 asks for. Otherwise it belongs to
/// root.
pub(super) fn gives_data_to_user(cluster: &Cluster, host: &HostSpec) -> bool {
    has_member(cluster, host) && cluster.security.is_cis()
}

/// Adds the step that gives the directory to the user etcd. The member keeps running as root, which can use the
/// directories of all users: kubeadm's `RootlessControlPlane` is deprecated, and gives keys to other users.
pub(super) fn own_data(cluster: &Cluster, host: &HostSpec, task: Task) -> Task {
    if !gives_data_to_user(cluster, host) {
        return task;
    }
    let data = member_directory(cluster, host);
    let step = RunScript::new(
        "etcd folder owner",
        format!("Give {data} to the user {}", etcd::USER),
        scripts::FOLDER_OWNER.verb("check"),
        scripts::FOLDER_OWNER.verb("apply"),
    );
    task.step(
        step.arguments([data.clone()])
            .undo(Undo::run(ETCD_FOLDER_RESTORE, [data])),
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

/// Returns the `etcd` section of kubeadm's configuration.
pub(super) fn section(cluster: &Cluster) -> EtcdSection {
    match (external(cluster), &cluster.etcd) {
        (Some(external), _) => EtcdSection::External(external),
        (
            None,
            Etcd::Kubeadm {
                extra_args,
                data_dir,
                cert_sans,
            },
        ) => EtcdSection::Local(LocalEtcd {
            data_dir: data_dir.to_string(),
            args: extra_args.clone(),
            cert_sans: cert_sans.iter().map(ToString::to_string).collect(),
        }),
        (None, _) => EtcdSection::Local(LocalEtcd::default()),
    }
}
