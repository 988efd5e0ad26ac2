//! Paths of certificates and kubeconfigs on hosts, the same as with kubeadm.

use std::sync::Arc;

use crate::DeployError;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::StepError;
use kubexm_engine::steps::{Content, WriteFile};
use kubexm_pki::Pair;
use kubexm_pki::kubernetes::{CaKey, ClusterPki};
use kubexm_render::kubernetes::Kubeconfig;
use kubexm_types::HostPath;

pub(super) const DIR: &str = "/etc/kubernetes";
pub(super) const CA: &str = "/etc/kubernetes/pki/ca.crt";
pub(super) const CA_KEY: &str = "/etc/kubernetes/pki/ca.key";
pub(super) const FRONT_PROXY_CA: &str = "/etc/kubernetes/pki/front-proxy-ca.crt";
pub(super) const SERVICE_ACCOUNT: &str = "/etc/kubernetes/pki/sa.pub";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "/etc/kubernetes/pki/sa.key";

/// The files of one program, in the order in which kubexm writes them.
#[derive(Default)]
pub(super) struct Files(Vec<WriteFile>);

impl Files {
    /// Adds a file that all users can read.
    pub(super) fn readable(&mut self, path: &str, text: &str) -> Result<(), DeployError> {
        self.0.push(WriteFile::new(HostPath::parse(path)?, text));
        Ok(())
    }

    /// Adds a file that only root can read.
    pub(super) fn secret(&mut self, path: &str, text: &str) -> Result<(), DeployError> {
        self.0.push(WriteFile::secret(HostPath::parse(path)?, text));
        Ok(())
    }

    /// Adds the key of a CA, which only root can read. A key that is not known can be neither compared nor written.
    pub(super) fn key(&mut self, path: &str, key: &CaKey) -> Result<(), DeployError> {
        let cause = match key {
            CaKey::Known(key) => return self.secret(path, key),
            CaKey::Unknown(cause) => cause.clone(),
        };
        let file = WriteFile::secret(HostPath::parse(path)?, "");
        self.0.push(WriteFile {
            content: Content::Deferred {
                preview: String::new(),
                render: Arc::new(move || Err(StepError::Unknown(cause.clone()))),
            },
            ..file
        });
        Ok(())
    }

    /// Adds a file without secrets that only root can read, as CIS asks for.
    pub(super) fn protected(&mut self, path: &str, text: &str) -> Result<(), DeployError> {
        let file = WriteFile::new(HostPath::parse(path)?, text);
        self.0.push(WriteFile {
            mode: 0o600,
            ..file
        });
        Ok(())
    }

    /// Adds a certificate and its key, as `<name>.crt` and `<name>.key` in the cluster's PKI directory.
    pub(super) fn pair(&mut self, name: &str, pair: &Pair) -> Result<(), DeployError> {
        self.readable(&format!("{DIR}/pki/{name}.crt"), &pair.certificate)?;
        self.secret(&format!("{DIR}/pki/{name}.key"), &pair.key)
    }

    /// Adds the kubeconfig of a user.
    pub(super) fn kubeconfig(
        &mut self,
        path: &str,
        cluster: &Cluster,
        pki: &ClusterPki,
        server: &str,
        user: (&str, &Pair),
    ) -> Result<(), DeployError> {
        self.secret(path, &kubeconfig(cluster, pki, server, user)?)
    }

    pub(super) fn paths(&self) -> Vec<HostPath> {
        self.0.iter().map(|file| file.path.clone()).collect()
    }

    pub(super) fn into_steps(self) -> Vec<WriteFile> {
        self.0
    }
}

/// Returns the kubeconfig of a user.
pub(super) fn kubeconfig(
    cluster: &Cluster,
    pki: &ClusterPki,
    server: &str,
    (user, pair): (&str, &Pair),
) -> Result<String, DeployError> {
    let context = Kubeconfig {
        cluster: &cluster.kubernetes.cluster_name,
        server,
        ca: &pki.trusted,
        user,
        certificate: &pair.certificate,
        key: &pair.key,
    };
    Ok(kubexm_render::text("kubeconfig", &context)?)
}

/// Returns the URL of the control plane's endpoint.
pub(super) fn endpoint(cluster: &Cluster) -> String {
    format!("https://{}", cluster.control_plane_endpoint)
}

/// Returns the URL of a control plane's own API server. During an upgrade its programs must not connect to an
/// API server of another version (<https://kubernetes.io/releases/version-skew-policy/>).
pub(super) fn own_server(cluster: &Cluster, host: &HostSpec) -> String {
    format!("https://{}", cluster.api_server(host))
}

/// Returns the URL of the API server of a node's kubelet and kube-proxy. Those of a control plane get another version with its own
/// API server, before the other control planes, and must not be newer than the API server to which they connect.
pub(super) fn node_server(cluster: &Cluster, host: &HostSpec) -> String {
    if cluster.is_control_plane(&host.name) {
        own_server(cluster, host)
    } else {
        endpoint(cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_workers_connect_to_the_load_balancer() {
        let cluster = crate::renewal::tests::cluster("type: systemd", "etcd: {type: systemd}");
        let servers = cluster.nodes().into_iter().map(|host| {
            let server = node_server(&cluster, host);
            format!("{} {server}", host.name)
        });
        let mut servers: Vec<String> = servers.collect();
        servers.sort();
        assert_eq!(
            servers,
            [
                "node1 https://192.0.2.11:6443",
                "node2 https://192.0.2.12:6443",
                "node3 https://192.0.2.13:6443",
                "node4 https://api.example:6443",
            ]
        );
    }
}
