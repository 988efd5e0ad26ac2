//! A cluster as the rest of kubexm sees it: defaults filled in, names resolved, values checked.
//!
//! Only `document` makes one, from the `cluster.yaml` that a user wrote.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::Value;

use super::{Arch, HostName, PublicKey, Version};

/// A checked cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// `metadata.name`: names the state folder and the registry's CA.
    pub name: String,
    /// The machines, in the order in which they were written.
    pub hosts: Vec<HostSpec>,
    /// Which host does what.
    pub roles: Roles,
    /// Kubernetes itself.
    pub kubernetes: Kubernetes,
    /// Where the cluster's data lives.
    pub etcd: Etcd,
    /// Settings merged into containerd's `config.toml`; an empty object where there are none.
    pub containerd_config: Value,
    /// `host:port` by which every node reaches the API server.
    pub control_plane_endpoint: Endpoint,
    /// Pods and services.
    pub network: Network,
    /// CoreDNS.
    pub dns: Dns,
    /// The local registry.
    pub registry: Registry,
    /// The operating system of the hosts.
    pub system: System,
    /// Keys of which one must have signed the bundle; anybody's is taken where there are none.
    pub trust: Vec<PublicKey>,
}

/// A machine and how to reach it.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// Node name.
    pub name: HostName,
    /// Where SSH is, as seen from here: an IP address or a DNS name.
    pub address: String,
    /// The address that the cluster uses (`node-ip`); equals `address` where not given.
    pub internal_address: IpAddr,
    /// SSH port.
    pub port: u16,
    /// SSH user: root, or one that may `sudo`.
    pub user: String,
    /// SSH password, also tried for sudo. Never printed.
    pub password: Option<Secret>,
    /// Private key file; without it the agent and `~/.ssh` are tried.
    pub private_key_path: Option<PathBuf>,
    /// Architecture, where given; facts decide otherwise.
    pub arch: Option<Arch>,
    /// Node labels.
    pub labels: BTreeMap<String, String>,
    /// Node taints; `None` leaves kubeadm's default (control planes are tainted), `Some(vec![])`
    /// takes that away.
    pub taints: Option<Vec<Taint>>,
}

/// A text that must not be seen.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// A node taint, `key=value:effect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value, may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Host names by role; each list is in the order in which it was written and has no name twice.
#[derive(Debug, Clone, Default)]
pub struct Roles {
    /// Control planes; the first runs `kubeadm init`. Never empty.
    pub control_plane: Vec<HostName>,
    /// Workers; a host that is a control plane too is not joined a second time.
    pub worker: Vec<HostName>,
    /// The registry's host. One in this version; the first control plane where not given.
    pub registry: Vec<HostName>,
}

/// `spec.kubernetes`.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    /// Exact version.
    pub version: Version,
    /// kubeadm's `clusterName`.
    pub cluster_name: String,
    /// DNS domain of services, `cluster.local`.
    pub dns_domain: String,
    /// kube-apiserver.
    pub api_server: Component,
    /// kube-controller-manager.
    pub controller_manager: Component,
    /// kube-scheduler.
    pub scheduler: Component,
    /// kubelet; `extra_config` is merged into its KubeletConfiguration.
    pub kubelet: Component,
    /// kube-proxy; `extra_config` is merged into its KubeProxyConfiguration.
    pub kube_proxy: Component,
    /// kube-proxy's mode: `iptables` or `nftables`.
    pub proxy_mode: String,
    /// Further names and addresses for the API server's certificate.
    pub cert_sans: Vec<String>,
    /// kubeadm's `--ignore-preflight-errors`.
    pub ignore_preflight_errors: Vec<String>,
}

/// Settings of one Kubernetes program.
#[derive(Debug, Clone)]
pub struct Component {
    /// Flags without the leading dashes.
    pub extra_args: BTreeMap<String, String>,
    /// Feature gates.
    pub feature_gates: BTreeMap<String, bool>,
    /// Configuration merged over what kubexm renders; an empty object where there is none.
    pub extra_config: Value,
}

/// Where the cluster's data lives.
#[derive(Debug, Clone)]
pub enum Etcd {
    /// Static pods that kubeadm makes, one on each control plane.
    Kubeadm {
        /// Flags for etcd.
        extra_args: BTreeMap<String, String>,
    },
    /// An etcd that is there already.
    External {
        /// `https://host:port`.
        endpoints: Vec<String>,
        /// CA certificate, a file on this machine.
        ca_file: PathBuf,
        /// Client certificate, a file on this machine.
        cert_file: PathBuf,
        /// Client key, a file on this machine.
        key_file: PathBuf,
    },
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// DNS name or IP address.
    pub host: String,
    /// The address that `host` gets in `/etc/hosts` on every host of the cluster; `None` where
    /// `host` is an address already or is left to the site's DNS.
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.parse::<std::net::Ipv6Addr>() {
            Ok(address) => write!(f, "[{address}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// `spec.network`.
#[derive(Debug, Clone)]
pub struct Network {
    /// The CNI.
    pub plugin: NetworkPlugin,
    /// Pod addresses, as in `10.244.0.0/16`.
    pub pod_cidr: String,
    /// Service addresses, as in `10.96.0.0/12`.
    pub service_cidr: String,
    /// The DNS service's address: the tenth of `service_cidr`.
    pub dns_address: IpAddr,
}

/// A network plugin that this version can install.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPlugin {
    /// flannel.
    Flannel(FlannelBackend),
    /// None: nodes stay NotReady until the user installs one.
    None,
}

/// flannel's way to carry packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlannelBackend {
    /// VXLAN: works over any network.
    Vxlan,
    /// Plain routes: all hosts on one layer-2 network.
    HostGw,
}

impl FlannelBackend {
    /// flannel's own name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::HostGw => "host-gw",
        }
    }
}

/// `spec.dns`.
#[derive(Debug, Clone)]
pub struct Dns {
    /// CoreDNS replicas; `None` leaves kubeadm's two.
    pub replicas: Option<u32>,
}

/// `spec.registry`.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Its name in certificates, `/etc/hosts` and `hosts.toml`.
    pub host_name: HostName,
    /// TLS port.
    pub port: u16,
    /// Where it keeps blobs.
    pub data_dir: super::HostPath,
}

/// `spec.system`.
#[derive(Debug, Clone)]
pub struct System {
    /// Whether kubexm may turn swap off; otherwise swap is a preflight error.
    pub disable_swap: bool,
    /// Whether kubexm manages a block of `/etc/hosts`.
    pub manage_hosts_file: bool,
    /// Whether kubexm installs the bundle's OS packages.
    pub install_packages: bool,
    /// Greatest difference between clocks, in seconds.
    pub max_clock_skew_seconds: u64,
    /// Further sysctl values.
    pub sysctl: BTreeMap<String, String>,
}

impl Cluster {
    /// The host of this name; every name in `roles` has one.
    pub fn host(&self, name: &HostName) -> Option<&HostSpec> {
        self.hosts.iter().find(|host| host.name == *name)
    }

    /// Whether the host is a control plane.
    pub fn is_control_plane(&self, name: &HostName) -> bool {
        self.roles.control_plane.contains(name)
    }

    /// Under which keys of etcd the API server keeps its objects: `/registry/` unless told otherwise
    /// (<https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/>).
    pub fn etcd_prefix(&self) -> String {
        let given = self.kubernetes.api_server.extra_args.get("etcd-prefix");
        let prefix = given.map_or("/registry", String::as_str);
        format!("/{}/", prefix.trim_matches('/'))
    }

    /// The hosts that become nodes: control planes, then workers that are nothing else.
    pub fn nodes(&self) -> Vec<&HostSpec> {
        let workers = self
            .roles
            .worker
            .iter()
            .filter(|name| !self.is_control_plane(name));
        self.roles
            .control_plane
            .iter()
            .chain(workers)
            .filter_map(|name| self.host(name))
            .collect()
    }
}
