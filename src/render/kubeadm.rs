//! kubeadm's configuration for each of its API versions.

use std::collections::BTreeMap;

use askama::Template;

use super::filters;
use kubexm_config::cluster;
use kubexm_config::cluster::Taint;
use kubexm_types::Version;

/// Returns the API version of a kubeadm, and whether extra arguments are a list in it.
pub fn api_of(version: &Version) -> (&'static str, bool) {
    let api = cluster::kubeadm_api(version);
    (api, api != "v1beta3")
}

/// The fields of a node in init and join.
pub struct Node {
    pub name: String,
    /// Address of the CRI socket.
    pub cri_socket: String,
    /// Names of kubeadm's checks that may fail.
    pub ignore_preflight_errors: Vec<String>,
    /// Taints; `None` for the defaults of kubeadm.
    pub taints: Option<Vec<Taint>>,
    /// Flags of the kubelet.
    pub kubelet_args: BTreeMap<String, String>,
}

/// A control plane program.
pub struct ComponentSection {
    /// `apiServer`, `controllerManager` or `scheduler`.
    pub section: &'static str,
    /// Flags.
    pub args: BTreeMap<String, String>,
    /// Additional names in the API server's certificate.
    pub cert_sans: Vec<String>,
    /// Files and directories of the host that the program uses.
    pub volumes: Vec<Volume>,
}

/// A file or directory of the host in the pod of a control plane program.
pub struct Volume {
    pub name: String,
    pub host_path: String,
    pub mount_path: String,
    pub read_only: bool,
    /// The type of a hostPath volume, as in `File`; `None` for no check.
    pub kind: Option<&'static str>,
}

/// How long certificates are valid that kubeadm issues.
pub struct Validity {
    /// Certificates of servers and clients, in hours.
    pub hours: u32,
    /// Certificate authorities, in hours.
    pub ca_hours: u32,
}

/// The etcd that kubeadm runs as static pods.
#[derive(Default)]
pub struct LocalEtcd {
    /// Directory of the data.
    pub data_dir: String,
    /// Flags.
    pub args: BTreeMap<String, String>,
    /// Additional names in the certificates.
    pub cert_sans: Vec<String>,
}

/// The connection to etcd.
pub enum EtcdSection {
    /// kubeadm runs etcd as static pods.
    Local(LocalEtcd),
    /// kubeadm does not run etcd.
    External(ExternalEtcd),
}

/// The configuration of `kubeadm init`: four documents.
#[derive(Template)]
#[template(path = "kubeadm/init.yaml")]
pub struct Init {
    /// API version.
    pub api: &'static str,
    /// Whether extra arguments are a list.
    pub list: bool,
    /// The address of this node.
    pub advertise_address: String,
    /// The API server's port on this node.
    pub bind_port: u16,
    /// This node.
    pub node: Node,
    /// The directory of patches.
    pub patches: Option<&'static str>,
    /// The Kubernetes version with `v`, as in `v1.36.3`.
    pub version: String,
    pub cluster_name: String,
    /// `host:port` of the control plane's endpoint.
    pub endpoint: String,
    /// The DNS domain of services.
    pub dns_domain: String,
    /// The pod network in CIDR notation.
    pub pod_cidr: String,
    /// The service network in CIDR notation.
    pub service_cidr: String,
    /// The three control plane programs.
    pub components: Vec<ComponentSection>,
    pub etcd: EtcdSection,
    /// Phases that `kubeadm init` leaves out.
    pub skip_phases: Vec<String>,
    /// How long certificates are valid; `None` for kubeadm's default.
    pub validity: Option<Validity>,
    /// The [`Kubelet`] document.
    pub kubelet: String,
    /// The [`KubeProxy`] document.
    pub kube_proxy: String,
}

/// The fields of a control plane in a join.
pub struct JoinControlPlane {
    /// The key that decrypts the uploaded certificates. Secret.
    pub certificate_key: String,
    /// The address of this node.
    pub advertise_address: String,
    /// The API server's port on this node.
    pub bind_port: u16,
}

/// The configuration of `kubeadm join`.
#[derive(Template)]
#[template(path = "kubeadm/join.yaml")]
pub struct Join {
    /// API version.
    pub api: &'static str,
    /// Whether extra arguments are a list.
    pub list: bool,
    /// `host:port` of the control plane's endpoint.
    pub endpoint: String,
    /// The bootstrap token. Secret.
    pub token: String,
    /// The pin of the cluster's CA.
    pub ca_hash: String,
    /// The fields of a control plane; `None` for a worker.
    pub control_plane: Option<JoinControlPlane>,
    /// This node.
    pub node: Node,
    /// The directory of patches.
    pub patches: Option<&'static str>,
    /// Phases that `kubeadm join` leaves out.
    pub skip_phases: Vec<String>,
}

/// The connection to an etcd that kubeadm does not run. Paths are on the host.
pub struct ExternalEtcd {
    /// URLs of the members.
    pub endpoints: Vec<String>,
    /// Path of the CA certificate.
    pub ca_file: String,
    /// Path of the client certificate.
    pub cert_file: String,
    /// Path of the client key.
    pub key_file: String,
}

/// The configuration of `kubeadm token create` and `kubeadm init phase upload-certs`.
#[derive(Template)]
#[template(path = "kubeadm/secrets.yaml")]
pub struct Secrets {
    /// API version.
    pub api: &'static str,
    /// The bootstrap token. Secret.
    pub token: String,
    /// The key that encrypts the uploaded certificates. Secret.
    pub certificate_key: String,
    /// The address of this node.
    pub advertise_address: String,
    /// The API server's port on this node.
    pub bind_port: u16,
    /// The Kubernetes version with `v`, as in `v1.36.3`.
    pub version: String,
    /// The connection to etcd; `None` if kubeadm runs etcd.
    pub external_etcd: Option<ExternalEtcd>,
}

/// A KubeletConfiguration.
#[derive(Template)]
#[template(path = "kubeadm/kubelet.yaml")]
pub struct Kubelet {
    /// `systemd` or `cgroupfs`.
    pub cgroup_driver: &'static str,
    /// The address of the DNS service.
    pub dns_address: String,
    /// The DNS domain of services.
    pub dns_domain: String,
    /// Feature gates.
    pub feature_gates: BTreeMap<String, bool>,
    /// Cipher suites of TLS 1.2.
    pub ciphers: Vec<&'static str>,
    /// The oldest version of TLS.
    pub min_tls: &'static str,
    /// Whether the profile is `cis`.
    pub cis: bool,
    /// The fields that kubeadm would set; `None` with kubeadm.
    pub own: Option<OwnKubelet>,
}

/// The fields of a KubeletConfiguration that depend on the node.
pub struct OwnKubelet {
    /// Path of the CA for clients of the kubelet.
    pub ca: String,
    /// Address of the CRI socket.
    pub runtime: String,
    /// Path of the `resolv.conf` for pods.
    pub resolv_conf: String,
    /// The directory of static pods.
    pub static_pods: String,
    /// Taints with which the node registers.
    pub taints: Vec<Taint>,
}

/// A KubeProxyConfiguration.
#[derive(Template)]
#[template(path = "kubeadm/kube-proxy.yaml")]
pub struct KubeProxy {
    /// `iptables`, `nftables` or `ipvs`.
    pub mode: String,
    /// The pod network in CIDR notation.
    pub pod_cidr: String,
    /// Feature gates.
    pub feature_gates: BTreeMap<String, bool>,
    /// The fields that kubeadm would set; `None` with kubeadm.
    pub own: Option<OwnKubeProxy>,
}

/// The fields of a KubeProxyConfiguration that depend on the node.
pub struct OwnKubeProxy {
    /// Path of kube-proxy's kubeconfig.
    pub kubeconfig: String,
    pub node: String,
}
