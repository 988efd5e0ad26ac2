//! What a plan depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubexm_bundle::lock::LockedFile;
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind};
use kubexm_engine::plan::StepError;
use kubexm_engine::steps::DeferredInput;
use kubexm_pki::Pair;
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_pki::registry_login::RegistryLogin;
use kubexm_pki::secret_keys::EncryptionKeys;
use kubexm_types::{Arch, HostName, ImageRef};

use crate::error::DeployError;
use crate::etcd_certificates::EtcdCertificates;
use crate::linking::CLibrary;

/// Facts of a host that a plan depends on.
#[derive(Debug, Clone)]
pub struct HostFacts {
    pub arch: Arch,
    /// Distribution and release, in all spellings that a bundle may use.
    pub releases: Vec<(String, String)>,
    /// Its C library.
    pub c_library: CLibrary,
    /// Whether its `resolv.conf` has a name server.
    pub has_name_server: bool,
    /// Whether it is already a node of the cluster.
    pub is_node: bool,
    /// Whether `kubeadm init` made it a node. Every other node of kubeadm has joined.
    pub is_initialized: bool,
    /// Whether it has the files with which the first control plane changes objects of the cluster.
    pub has_cluster_files: bool,
    /// Whether all members of kubexm's etcd were healthy once.
    pub etcd_formed: bool,
    /// Whether its pods have ended for another containerd, and an interrupted run has not started its kubelet since.
    pub pods_ended: bool,
    /// Whether the registry that kubexm runs on it requires a login; `None` if it runs none there.
    pub registry_login: Option<bool>,
    /// The registries whose images the registry that kubexm runs on it has.
    pub registry_sources: BTreeSet<String>,
    /// Whether NetworkManager runs on it.
    pub has_network_manager: bool,
    /// Whether systemd-networkd runs on it.
    pub has_networkd: bool,
}

/// The certificates that kubexm issues for a cluster.
#[derive(Clone)]
pub struct Certificates {
    /// kubexm's CA certificate, PEM.
    pub ca: String,
    /// The registry's server certificate.
    pub registry: Pair,
    /// The nodes' login at the registry; `None` if it requires none, or if kubexm does not run it.
    pub registry_login: Option<RegistryLogin>,
    /// The certificates of kubexm's etcd; `None` if kubexm does not run etcd.
    pub etcd: Option<EtcdCertificates>,
    /// The certificates of Kubernetes; `None` if kubeadm issues them.
    pub kubernetes: Option<Arc<ClusterPki>>,
    /// The keys with which API servers encrypt Secrets; `None` if they do not encrypt them.
    pub encryption: Option<Arc<EncryptionKeys>>,
    /// The authorities with which `kubeadm init` begins; `None` if it creates all of them.
    pub authorities: Option<Arc<GivenAuthorities>>,
}

/// The files of a CA of the site below `/etc/kubernetes/pki`: the certificate, and its key.
pub const SITE_CA: [&str; 2] = ["ca.crt", "ca.key"];

/// Authorities that kubeadm does not create: those of a backup, or the CA of the site.
pub struct GivenAuthorities {
    /// The names of the files, below `/etc/kubernetes/pki`.
    pub names: Vec<String>,
    /// A tar archive of the files. Secret.
    pub archive: DeferredInput,
}

impl GivenAuthorities {
    /// Returns the CA of the site; `None` if kubeadm does not need one. kubeadm creates the other authorities. `archive` is read when
    /// the first control plane needs it.
    pub fn of_site(
        cluster: &Cluster,
        archive: impl Fn() -> Result<Vec<u8>, StepError> + Send + Sync + 'static,
    ) -> Option<Self> {
        cluster.kubernetes.site_ca.as_ref()?;
        (cluster.kubernetes.kind == KubernetesKind::Kubeadm).then(|| Self {
            names: SITE_CA.map(str::to_owned).into(),
            archive: Arc::new(archive),
        })
    }
}

/// Everything that a plan depends on.
#[derive(Clone)]
pub struct Inputs<'a> {
    pub cluster: &'a Cluster,
    /// The lock of the bundle.
    pub lock: &'a Lock,
    /// The bundle.
    pub blobs: Arc<dyn Blobs>,
    /// The facts of the hosts.
    pub hosts: BTreeMap<HostName, HostFacts>,
    /// Workers without tasks in this plan, because kubexm cannot use them now. Files of other hosts still name them.
    pub absent: BTreeSet<HostName>,
    /// Nodes that are about to leave the cluster. The cluster file does not have them.
    pub leaving: BTreeSet<HostName>,
    pub certificates: Certificates,
}

impl Inputs<'_> {
    /// Returns the facts of a host. Without facts it assumes the first architecture of the bundle.
    pub(crate) fn host_facts(&self, host: &HostName) -> HostFacts {
        let arch = self
            .lock
            .architectures
            .first()
            .copied()
            .unwrap_or(Arch::Amd64);
        let facts = self.hosts.get(host).cloned();
        facts.unwrap_or_else(|| HostFacts::assumed(arch))
    }

    /// Returns the hosts that become nodes in this plan: control planes, then workers without those that are
    /// absent.
    pub(crate) fn nodes(&self) -> Vec<&HostSpec> {
        let mut nodes = self.cluster.nodes();
        nodes.retain(|host| !self.absent.contains(&host.name));
        nodes
    }

    /// Returns the architectures of the hosts.
    pub(crate) fn arches(&self) -> BTreeSet<Arch> {
        self.hosts.values().map(|facts| facts.arch).collect()
    }

    /// Returns the newest file of a component for a host's architecture.
    pub(crate) fn file(
        &self,
        component: &str,
        host: &HostName,
    ) -> Result<&LockedFile, DeployError> {
        let arch = self.host_facts(host).arch;
        let file = self.lock.file(component, arch);
        file.ok_or_else(|| DeployError::Incomplete(vec![format!("{component} for {arch}")]))
    }

    /// Returns the file of a component in the cluster's Kubernetes version, for a host's architecture.
    pub(crate) fn kubernetes_file(
        &self,
        component: &str,
        host: &HostName,
    ) -> Result<&LockedFile, DeployError> {
        let (arch, version) = (self.host_facts(host).arch, &self.cluster.kubernetes.version);
        let file = self.lock.file_version(component, version, arch);
        file.ok_or_else(|| {
            DeployError::Incomplete(vec![format!("{component} {version} for {arch}")])
        })
    }

    /// Returns the image of a repository in any version; `None` if the bundle does not contain it.
    pub(crate) fn image_of(&self, repository: &str) -> Option<ImageRef> {
        let mut names = self.lock.images.iter().map(|image| &image.name);
        names.find(|name| name.repository() == repository).cloned()
    }

    /// Returns the control plane that runs kubectl: the one that did so before, also if another one that joined later is before it
    /// in the cluster file. Otherwise it is the first one that is a node already, or the first one of all, which runs
    /// `kubeadm init`.
    pub(crate) fn first(&self) -> Option<&HostSpec> {
        let names = &self.cluster.roles.control_plane;
        let is_node = |name: &&HostName| self.host_facts(name).is_node;
        let did_so = |name: &&HostName| is_node(name) && self.host_facts(name).has_cluster_files;
        let mut found = names.iter().find(did_so);
        found = found.or_else(|| names.iter().find(is_node));
        let first = found.or(names.first());
        first.and_then(|name| self.cluster.host(name))
    }

    /// Returns whether the cluster existed before this plan.
    pub(crate) fn cluster_exists(&self) -> bool {
        let first = self.first();
        first.is_some_and(|first| self.host_facts(&first.name).is_node)
    }
}
