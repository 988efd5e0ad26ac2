//! kubeadm's configuration, by its API version.

use std::collections::BTreeMap;

use askama::Template;

use super::filters;
use kubexm_config::cluster;
use kubexm_config::cluster::Taint;
use kubexm_types::Version;

/// The API version of a kubeadm, and whether extra arguments are a list in it.
pub fn api_of(version: &Version) -> (&'static str, bool) {
    let api = cluster::kubeadm_api(version);
    (api, api != "v1beta3")
}

/// The node's part of init and join.
pub struct Node {
    /// Node name.
    pub name: String,
    /// The CRI socket's address.
    pub cri_socket: String,
    /// Checks of kubeadm that may fail.
    pub ignore_preflight_errors: Vec<String>,
    /// Taints; `None` leaves kubeadm's.
    pub taints: Option<Vec<Taint>>,
    /// The kubelet's flags.
    pub kubelet_args: BTreeMap<String, String>,
}

/// One of the three control plane programs.
pub struct ComponentSection {
    /// `apiServer`, `controllerManager`, `scheduler`.
    pub section: &'static str,
    /// Flags.
    pub args: BTreeMap<String, String>,
    /// Names in the API server's certificate.
    pub cert_sans: Vec<String>,
}

/// Where etcd is.
pub enum EtcdSection {
    /// Static pods.
    Local {
        /// Flags.
        args: BTreeMap<String, String>,
    },
    /// Somewhere else.
    External(ExternalEtcd),
}

/// What `kubeadm init` reads: four documents.
#[derive(Template)]
#[template(path = "kubeadm/init.yaml")]
pub struct Init {
    /// API version.
    pub api: &'static str,
    /// Whether extra arguments are a list.
    pub list: bool,
    /// This node's address.
    pub advertise_address: String,
    /// The API server's port on this node.
    pub bind_port: u16,
    /// This node.
    pub node: Node,
    /// Folder of patches.
    pub patches: Option<&'static str>,
    /// Kubernetes version, with `v`.
    pub version: String,
    /// Cluster name.
    pub cluster_name: String,
    /// `host:port` for all nodes.
    pub endpoint: String,
    /// DNS domain.
    pub dns_domain: String,
    /// Pod network.
    pub pod_cidr: String,
    /// Service network.
    pub service_cidr: String,
    /// The three control plane programs.
    pub components: Vec<ComponentSection>,
    /// etcd.
    pub etcd: EtcdSection,
    /// KubeletConfiguration.
    pub kubelet: String,
    /// KubeProxyConfiguration.
    pub kube_proxy: String,
}

/// The control plane's part of a join.
pub struct JoinControlPlane {
    /// Decrypts the control plane's certificates. Secret.
    pub certificate_key: String,
    /// This node's address.
    pub advertise_address: String,
    /// The API server's port on this node.
    pub bind_port: u16,
}

/// What `kubeadm join` reads.
#[derive(Template)]
#[template(path = "kubeadm/join.yaml")]
pub struct Join {
    /// API version.
    pub api: &'static str,
    /// Whether extra arguments are a list.
    pub list: bool,
    /// `host:port` of the API server.
    pub endpoint: String,
    /// Bootstrap token. Secret.
    pub token: String,
    /// Pin of the cluster's CA.
    pub ca_hash: String,
    /// For control planes.
    pub control_plane: Option<JoinControlPlane>,
    /// This node.
    pub node: Node,
    /// Folder of patches.
    pub patches: Option<&'static str>,
}

/// Files of an external etcd, by their places on the host.
pub struct ExternalEtcd {
    /// Addresses.
    pub endpoints: Vec<String>,
    /// CA certificate.
    pub ca_file: String,
    /// Client certificate.
    pub cert_file: String,
    /// Client key.
    pub key_file: String,
}

/// What mints a token and uploads certificates.
#[derive(Template)]
#[template(path = "kubeadm/secrets.yaml")]
pub struct Secrets {
    /// API version.
    pub api: &'static str,
    /// Bootstrap token. Secret.
    pub token: String,
    /// Certificate key. Secret.
    pub certificate_key: String,
    /// This node's address.
    pub advertise_address: String,
    /// The API server's port on this node.
    pub bind_port: u16,
    /// Kubernetes version, with `v`.
    pub version: String,
    /// Where etcd is not kubeadm's.
    pub external_etcd: Option<ExternalEtcd>,
}

/// KubeletConfiguration.
#[derive(Template)]
#[template(path = "kubeadm/kubelet.yaml")]
pub struct Kubelet {
    /// The DNS service's address.
    pub dns_address: String,
    /// DNS domain.
    pub dns_domain: String,
    /// Feature gates.
    pub feature_gates: BTreeMap<String, bool>,
    /// What kubeadm fills in by itself, where there is no kubeadm.
    pub own: Option<OwnKubelet>,
}

/// The part of a KubeletConfiguration that is one node's.
pub struct OwnKubelet {
    /// CA of those who may call the kubelet.
    pub ca: String,
    /// The CRI socket's address.
    pub runtime: String,
    /// What pods get as `resolv.conf`.
    pub resolv_conf: String,
    /// Folder of static pods.
    pub static_pods: String,
    /// Taints that the node comes with.
    pub taints: Vec<Taint>,
}

/// KubeProxyConfiguration.
#[derive(Template)]
#[template(path = "kubeadm/kube-proxy.yaml")]
pub struct KubeProxy {
    /// `iptables`, `nftables` or `ipvs`.
    pub mode: String,
    /// Pod network.
    pub pod_cidr: String,
    /// Feature gates.
    pub feature_gates: BTreeMap<String, bool>,
    /// What kubeadm gives by itself, where there is no kubeadm.
    pub own: Option<OwnKubeProxy>,
}

/// The part of a KubeProxyConfiguration that is one node's.
pub struct OwnKubeProxy {
    /// kube-proxy's kubeconfig.
    pub kubeconfig: String,
    /// Node name.
    pub node: String,
}
