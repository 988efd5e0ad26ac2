//! The `etcd` section of kubeadm's configuration.

use crate::etcd;
use kubexm_config::cluster::{Cluster, Etcd};
use kubexm_render::kubeadm::{EtcdSection, ExternalEtcd};

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
