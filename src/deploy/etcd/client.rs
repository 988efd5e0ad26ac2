//! The API servers' connection to an etcd that kubeadm does not run.

use crate::{DeployError, Inputs, controller_file};
use kubexm_config::cluster::{Cluster, Etcd};
use kubexm_engine::steps::WriteFile;
use kubexm_types::{HostName, HostPath};

/// The API servers' connection to an etcd that kubeadm does not run. Paths are on control planes.
pub(crate) struct Client {
    /// `https://host:port`.
    pub(crate) endpoints: Vec<String>,
    /// Path of the CA certificate.
    pub(crate) ca_file: &'static str,
    /// Path of the client certificate.
    pub(crate) cert_file: &'static str,
    /// Path of the client key.
    pub(crate) key_file: &'static str,
}

/// The CA of etcd on control planes.
pub(crate) const CLIENT_CA: &str = "/etc/kubexm/etcd/ca.crt";

/// CA, client certificate and client key on control planes. kubeadm mounts their directory into the API
/// server, so it must not contain other files.
const CLIENT_FILES: [&str; 3] = [
    CLIENT_CA,
    "/etc/kubexm/etcd/client.crt",
    "/etc/kubexm/etcd/client.key",
];

/// Returns how the API servers on these hosts connect to etcd; `None` if kubeadm runs etcd.
///
/// If every host has a member, each API server uses only the local one, as with kubeadm. Requests to a host
/// that disappeared would block for many seconds.
pub(crate) fn client(cluster: &Cluster, servers: &[HostName]) -> Option<Client> {
    let is_member = |name: &HostName| cluster.roles.etcd.contains(name);
    let endpoints = match &cluster.etcd {
        Etcd::External { endpoints, .. } => endpoints.clone(),
        Etcd::Systemd { .. } if servers.iter().all(is_member) => {
            vec![kubexm_etcd::local_endpoint()]
        }
        Etcd::Systemd { .. } => {
            let hosts = cluster.etcd_hosts().into_iter();
            hosts.map(kubexm_etcd::client_url).collect()
        }
        Etcd::Kubeadm { .. } => return None,
    };
    let [ca_file, cert_file, key_file] = CLIENT_FILES;
    Some(Client {
        endpoints,
        ca_file,
        cert_file,
        key_file,
    })
}

/// Returns the client's files for control planes. `kubeadm join` writes the same files with the same modes,
/// from the upload of the first control plane.
pub(crate) fn client_files(inputs: &Inputs<'_>) -> Result<Vec<WriteFile>, DeployError> {
    let Some(certificates) = &inputs.certificates.etcd else {
        return copied(inputs.cluster);
    };
    let [ca, cert, key] = CLIENT_FILES;
    let client = &certificates.client;
    Ok(vec![
        WriteFile::new(HostPath::parse(ca)?, certificates.ca.clone()),
        WriteFile::new(HostPath::parse(cert)?, client.certificate.clone()),
        WriteFile::secret(HostPath::parse(key)?, client.key.clone()),
    ])
}

/// Returns the files of the client of an external etcd, which kubexm copies from the controller to a control plane.
fn copied(cluster: &Cluster) -> Result<Vec<WriteFile>, DeployError> {
    let Etcd::External {
        ca_file,
        cert_file,
        key_file,
        ..
    } = &cluster.etcd
    else {
        return Ok(Vec::new());
    };
    let [ca, cert, key] = CLIENT_FILES;
    Ok(vec![
        WriteFile::new(HostPath::parse(ca)?, controller_file::read(ca_file)?),
        WriteFile::new(HostPath::parse(cert)?, controller_file::read(cert_file)?),
        WriteFile::secret(HostPath::parse(key)?, controller_file::read(key_file)?),
    ])
}
