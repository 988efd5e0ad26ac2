//! A cluster as the rest of kubexm sees it: defaults filled in, names resolved, values checked.
//!
//! Only `document` makes one, from the `cluster.yaml` that a user wrote.

mod dns;
mod etcd;
mod host;
mod kinds;
mod kubernetes;
mod load_balancer;
mod network;
mod patch;
mod registry;
mod runtime;

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::problem::Notice;
use kubexm_types::{HostName, PublicKey};

pub use dns::{CacheInterface, Dns, NodeLocal, Zone};
pub use etcd::Etcd;
pub use host::{HostSpec, Taint};
pub use kinds::{AddressHolder, ControlPlanePod, KubernetesKind, LocalProxy, RuntimeKind};
pub(crate) use kinds::{FORMER_LOAD_BALANCERS, FORMER_SYSTEMD, FormerNames};
pub use kubernetes::{Component, IPVS_MODULES, Kubernetes, ProxyMode, kubeadm_api};
pub use load_balancer::{Endpoint, LoadBalancer, ProxyRun};
pub use network::{
    Calico, Cilium, CiliumRouting, Encapsulation, FlannelBackend, Network, NetworkPlugin,
};
pub use patch::{Patch, PatchFile, PatchKind, PatchTarget};
pub use registry::{ExternalRegistry, Registry, RegistryLogin};
pub use runtime::Runtime;

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
    /// What runs containers.
    pub runtime: Runtime,
    /// What stands before the API servers.
    pub load_balancer: LoadBalancer,
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
    /// What the user should write in another way.
    pub notices: Vec<Notice>,
}

/// Host names by role; each list is in the order in which it was written and has no name twice.
#[derive(Debug, Clone, Default)]
pub struct Roles {
    /// Control planes; the first runs `kubeadm init`. Never empty.
    pub control_plane: Vec<HostName>,
    /// Workers; a host that is a control plane too is not joined a second time.
    pub worker: Vec<HostName>,
    /// Hosts of the registries that kubexm runs, each with all images; the first control plane where
    /// not given, none where the registry is the user's own.
    pub registry: Vec<HostName>,
    /// Members of an etcd that kubexm runs; the control planes where not given.
    pub etcd: Vec<HostName>,
    /// Hosts of a load balancer that kubexm runs; the control planes where not given.
    pub load_balancer: Vec<HostName>,
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

    /// The hosts of the role `etcd`.
    pub fn etcd_hosts(&self) -> Vec<&HostSpec> {
        let names = self.roles.etcd.iter();
        names.filter_map(|name| self.host(name)).collect()
    }

    /// The name server that kubelets give to pods: the cache on their node where there is one, else
    /// the DNS service.
    pub fn kubelet_dns_address(&self) -> IpAddr {
        let cache = self.dns.node_local.as_ref();
        cache.map_or(self.network.dns_address, |cache| cache.address)
    }

    /// Whether the host becomes a node.
    pub fn is_node(&self, name: &HostName) -> bool {
        self.is_control_plane(name) || self.roles.worker.contains(name)
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
