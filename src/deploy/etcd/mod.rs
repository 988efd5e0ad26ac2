//! Where the cluster's data lives.

mod external;

use super::{DeployError, Inputs};
use crate::plan::{Task, TaskId};
use crate::spec::cluster::{Cluster, Etcd};
use crate::steps::WriteFile;

/// An etcd that is not kubeadm's, as API servers reach it: files by their places on control planes.
pub(super) struct Client {
    /// `https://host:port`.
    pub(super) endpoints: Vec<String>,
    /// CA certificate.
    pub(super) ca_file: &'static str,
    /// Client certificate.
    pub(super) cert_file: &'static str,
    /// Client key.
    pub(super) key_file: &'static str,
}

/// CA, client certificate and client key of an etcd that is not kubeadm's, on control planes.
const CLIENT_FILES: [&str; 3] = [
    "/etc/kubexm/etcd/ca.crt",
    "/etc/kubexm/etcd/client.crt",
    "/etc/kubexm/etcd/client.key",
];

/// How API servers reach etcd; `None` where kubeadm makes it and knows.
pub(super) fn client(cluster: &Cluster) -> Option<Client> {
    let endpoints = match &cluster.etcd {
        Etcd::External { endpoints, .. } => endpoints.clone(),
        Etcd::Kubeadm { .. } | Etcd::Kubexm { .. } => return None,
    };
    let [ca_file, cert_file, key_file] = CLIENT_FILES;
    Some(Client {
        endpoints,
        ca_file,
        cert_file,
        key_file,
    })
}

/// The client's files, for control planes. `kubeadm join` writes them again, from what `upload-certs`
/// took of the first control plane, with these modes.
pub(super) fn client_files(inputs: &Inputs<'_>) -> Result<Vec<WriteFile>, DeployError> {
    external::client_files(inputs.cluster)
}

/// Components that the bundle must have for it, by catalog name.
pub(super) fn components(_: &Cluster) -> &'static [&'static str] {
    &[]
}

/// Installs and starts the members that kubexm runs itself.
pub(super) fn tasks(_: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    Ok(Vec::new())
}

/// Tasks after which etcd answers.
pub(super) fn ready(_: &Inputs<'_>) -> Vec<TaskId> {
    Vec::new()
}
