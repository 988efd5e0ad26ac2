//! Where certificates and kubeconfigs lie on hosts: at kubeadm's places.

use std::net::SocketAddr;

use crate::DeployError;
use crate::kubernetes::BIND_PORT;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::steps::WriteFile;
use kubexm_pki::Pair;
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_render::kubernetes::Kubeconfig;
use kubexm_types::HostPath;

pub(super) const FOLDER: &str = "/etc/kubernetes";
pub(super) const CA: &str = "/etc/kubernetes/pki/ca.crt";
pub(super) const CA_KEY: &str = "/etc/kubernetes/pki/ca.key";
pub(super) const FRONT_PROXY_CA: &str = "/etc/kubernetes/pki/front-proxy-ca.crt";
pub(super) const SERVICE_ACCOUNT: &str = "/etc/kubernetes/pki/sa.pub";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "/etc/kubernetes/pki/sa.key";

/// Files in the order in which they are written, and read by one program.
#[derive(Default)]
pub(super) struct Files(Vec<WriteFile>);

impl Files {
    pub(super) fn open(&mut self, path: &str, text: &str) -> Result<(), DeployError> {
        self.0.push(WriteFile::new(HostPath::parse(path)?, text));
        Ok(())
    }

    pub(super) fn secret(&mut self, path: &str, text: &str) -> Result<(), DeployError> {
        self.0.push(WriteFile::secret(HostPath::parse(path)?, text));
        Ok(())
    }

    /// A certificate and its key, as `<name>.crt` and `<name>.key` of the cluster's PKI.
    pub(super) fn pair(&mut self, name: &str, pair: &Pair) -> Result<(), DeployError> {
        self.open(&format!("{FOLDER}/pki/{name}.crt"), &pair.certificate)?;
        self.secret(&format!("{FOLDER}/pki/{name}.key"), &pair.key)
    }

    /// A user's kubeconfig.
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

/// A kubeconfig of one user.
pub(super) fn kubeconfig(
    cluster: &Cluster,
    pki: &ClusterPki,
    server: &str,
    (user, pair): (&str, &Pair),
) -> Result<String, DeployError> {
    let context = Kubeconfig {
        cluster: &cluster.kubernetes.cluster_name,
        server,
        ca: &pki.ca.certificate,
        user,
        certificate: &pair.certificate,
        key: &pair.key,
    };
    Ok(kubexm_render::text("kubeconfig", &context)?)
}

/// Where all nodes find the API server.
pub(super) fn endpoint(cluster: &Cluster) -> String {
    format!("https://{}", cluster.control_plane_endpoint)
}

/// A control plane's own API server: its programs must not talk to one of another version when the
/// cluster is upgraded (<https://kubernetes.io/releases/version-skew-policy/>).
pub(super) fn own_server(host: &HostSpec) -> String {
    format!(
        "https://{}",
        SocketAddr::new(host.internal_address, BIND_PORT)
    )
}
