//! The checked form of a cluster file: defaults are filled in, names are resolved, values are checked.
//! `cluster_document` creates it.

mod applications;
mod dns;
mod etcd;
mod files;
mod high_availability;
mod hooks;
mod host;
mod ip_families;
pub mod kernel_settings;
mod kinds;
mod kubernetes;
mod load_balancer;
mod network;
mod password;
mod patch;
mod registry;
mod roles;
mod runtime;
mod security;
mod system;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crate::problem::Notice;
pub use kubexm_kinds::{
    Addon, AddonContent, AddressHolder, Calico, Cilium, CiliumRouting, ControlPlanePod,
    Encapsulation, FlannelBackend, LocalProxy, NetworkPlugin, POD_ROUTES_UNIT, PluginKind,
    PluginProperties, RuntimeKind, RuntimeProperties,
};
use kubexm_types::{HostName, PublicKey};

pub use applications::{
    Application, ApplicationContent, ApplicationValues, SecretValue, SiteObjects, ValueSource,
};
pub use dns::{CacheInterface, Dns, HostEntry, NodeLocal, Zone};
pub use etcd::{DEFAULT_ETCD_DATA_DIR, Etcd};
pub use files::{FileOwner, FileSource, Role, SiteFile};
pub use high_availability::{HighAvailability, KeepalivedSettings, KubeVipSettings, ProxySettings};
pub use hooks::{Hook, HookPhase, HookRun, HookTime};
pub use host::{DEFAULT_PORT, DEFAULT_USER, HostSpec, JumpHost, Taint, Transport};
pub use ip_families::{IpFamilies, IpFamily, OfFamily};
pub use kinds::{CgroupDriver, KubernetesKind};
pub(crate) use kinds::{FORMER_SYSTEMD, FormerNames};
pub(crate) use kubernetes::IPVS_SCHEDULERS;
pub use kubernetes::{
    ApiServer, Component, ExtraVolume, KubeProxy, Kubeadm, KubeadmConfig, Kubernetes, ProxyMode,
    SiteCa, SkipPhases, Validity, kubeadm_api,
};
pub(crate) use load_balancer::FORMER_LOAD_BALANCERS;
pub use load_balancer::{Endpoint, LoadBalancer, ProxyRun};
pub use network::{NODE_PREFIX, Network, PrefixLengths};
pub(crate) use network::{address_at, ranges};
pub use password::PasswordSource;
pub use patch::{Patch, PatchFile, PatchKind, PatchTarget};
pub use registry::{ExternalRegistry, Registry, RegistryLogin, SiteRegistry};
pub use roles::Roles;
pub(crate) use runtime::FORMER_RUNTIMES;
pub use runtime::{Runtime, RuntimeClass};
pub use security::{
    Encryption, EncryptionProvider, KUBELET_KERNEL_SETTINGS, Security, SecurityProfile,
};
pub use system::{Resolvers, System, Time};

/// A checked cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// `metadata.name`: the name of the state directory and of the registry's CA.
    pub name: String,
    /// The hosts, in the order of the file.
    pub hosts: Vec<HostSpec>,
    pub roles: Roles,
    pub kubernetes: Kubernetes,
    pub etcd: Etcd,
    pub runtime: Runtime,
    pub high_availability: HighAvailability,
    /// The address at which every node reaches the API servers.
    pub control_plane_endpoint: Endpoint,
    pub network: Network,
    pub dns: Dns,
    pub registry: Registry,
    pub system: System,
    pub security: Security,
    /// The applications of the user, each after those that it needs.
    pub applications: Vec<Application>,
    /// Keys of which one must have signed the bundle. If there are none, no signature is required.
    pub trust: Vec<PublicKey>,
    /// The hosts of the HTTP URLs that the file contains, such as that of an OpenID Connect issuer. Hosts of the cluster may
    /// ask them.
    pub servers: BTreeSet<String>,
    /// What the user should write in another way.
    pub notices: Vec<Notice>,
}

impl Cluster {
    /// Returns the host with this name. Every name in `roles` has a host.
    pub fn host(&self, name: &HostName) -> Option<&HostSpec> {
        self.hosts.iter().find(|host| host.name == *name)
    }

    /// Returns true if the host is a control plane.
    pub fn is_control_plane(&self, name: &HostName) -> bool {
        self.roles.control_plane.contains(name)
    }

    /// Returns the prefix of the keys in etcd under which the API server stores objects: `/registry/` by default
    /// (<https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/>).
    pub fn etcd_prefix(&self) -> String {
        let given = self
            .kubernetes
            .api_server
            .component
            .extra_args
            .get("etcd-prefix");
        let prefix = given.map_or("/registry", String::as_str);
        format!("/{}/", prefix.trim_matches('/'))
    }

    /// Returns the port on which a host's API server listens; `None` if the host is not a control plane.
    pub fn api_server_port(&self, name: &HostName) -> Option<u16> {
        let port = self.kubernetes.api_server.port;
        self.is_control_plane(name).then_some(port)
    }

    /// Returns the address at which the API server of a control plane listens.
    pub fn api_server(&self, host: &HostSpec) -> SocketAddr {
        SocketAddr::new(host.internal_address(), self.kubernetes.api_server.port)
    }

    /// Returns the hosts of the role `etcd`.
    pub fn etcd_hosts(&self) -> Vec<&HostSpec> {
        let names = self.roles.etcd.iter();
        names.filter_map(|name| self.host(name)).collect()
    }

    /// Returns the name server that kubelets give to pods: the cache on the node if there is one, or the DNS service.
    pub fn kubelet_dns_address(&self) -> IpAddr {
        let cache = self.dns.node_local.as_ref();
        cache.map_or(self.network.dns_address, |cache| cache.address)
    }

    /// Returns true if kubexm runs programs of the load balancer on the host.
    pub fn runs_load_balancer(&self, name: &HostName) -> bool {
        match self.high_availability.kind {
            LoadBalancer::None | LoadBalancer::External => false,
            LoadBalancer::Local { .. } => self.is_node(name),
            LoadBalancer::Holder { .. } => self.roles.load_balancer.contains(name),
            LoadBalancer::Pods { .. } => self.is_control_plane(name),
        }
    }

    /// Returns the host with this address in the cluster.
    pub fn host_at(&self, address: IpAddr) -> Option<&HostSpec> {
        let mut hosts = self.hosts.iter();
        hosts.find(|host| host.has_address(address))
    }

    /// Returns true if the host becomes a node.
    pub fn is_node(&self, name: &HostName) -> bool {
        self.is_control_plane(name) || self.roles.worker.contains(name)
    }

    /// Returns the hosts that become nodes: control planes, then the other workers.
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
