//! Issues the certificates that kubexm's own CA makes for a cluster.

use std::path::Path;
use std::sync::Arc;

use crate::CommandError;
use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, KubernetesKind};
use kubexm_deploy::{Certificates, EtcdCertificates};
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_pki::{Ca, Leaf, Pair};

/// Loads the cluster's CAs and certificates from the state folder, and creates those that are missing.
pub(crate) fn load_or_issue(cluster: &Cluster, state: &Path) -> Result<Certificates, CommandError> {
    let folder = state.join("pki");
    let ca = Ca::load_or_create(&folder, &format!("kubexm-{}", cluster.name))
        .map_err(CommandError::configuration)?;
    Ok(Certificates {
        registry: registry(cluster, &ca, &folder)?,
        etcd: etcd(cluster, &folder)?,
        kubernetes: kubernetes(cluster, &folder)?,
        ca: ca.certificate().to_owned(),
    })
}

/// The server certificate of the cluster's registry, valid for every host that runs it.
fn registry(cluster: &Cluster, ca: &Ca, folder: &Path) -> Result<Pair, CommandError> {
    let mut names = vec![
        cluster.registry.host_name.to_string(),
        "127.0.0.1".to_owned(),
    ];
    let hosts = cluster.roles.registry.iter();
    for host in hosts.filter_map(|name| cluster.host(name)) {
        names.push(host.name.to_string());
        names.push(host.internal_address.to_string());
    }
    ca.issue(folder, "registry", &Leaf::server("registry", names))
        .map_err(CommandError::configuration)
}

/// The certificates of an etcd that kubexm runs.
fn etcd(cluster: &Cluster, folder: &Path) -> Result<Option<EtcdCertificates>, CommandError> {
    if !matches!(cluster.etcd, Etcd::Systemd { .. }) {
        return Ok(None);
    }
    let ca = Ca::load_or_create(folder, &format!("etcd-{}", cluster.name))
        .map_err(CommandError::configuration)?;
    let issue = |name: &str, leaf: &Leaf| ca.issue(folder, name, leaf);
    EtcdCertificates::make(cluster, ca.certificate(), issue).map_err(CommandError::configuration)
}

/// The certificates of Kubernetes, where kubeadm does not issue them.
fn kubernetes(cluster: &Cluster, folder: &Path) -> Result<Option<Arc<ClusterPki>>, CommandError> {
    match cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => Ok(None),
        KubernetesKind::Systemd => ClusterPki::load_or_create(&folder.join("kubernetes"), cluster)
            .map(|pki| Some(Arc::new(pki)))
            .map_err(CommandError::configuration),
    }
}
