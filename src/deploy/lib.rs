//! Plans the installation of a cluster. Each [`module`] turns configuration, facts and bundle into tasks.
//! This crate opens no connection.

pub mod backup;
pub mod completeness;
pub mod component_configs;
mod controller_file;
mod dns;
mod etcd;
#[cfg(test)]
mod example;
pub mod expected;
mod former_files;
mod health;
mod hooks;
mod host_settings;
mod images;
mod kubernetes;
mod linking;
mod load_balancer;
mod manifest;
mod module;
mod modules;
mod network;
mod network_manager;
mod os;
mod placeholders;
mod pod_leftovers;
mod post_install;
mod registry;
pub mod relocation;
pub mod removal;
pub mod renewal;
pub mod rollback;
pub mod rotation;
mod rotation_inputs;
mod runtime;
mod service_user;
mod site_files;
pub mod upgrade;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use modules::MODULES;
pub use runtime::data_dir as runtime_data_dir;

pub use etcd::{EtcdCertificates, MemberCertificates, version as etcd_version};
pub use hooks::ResetHooks;
use kubexm_bundle::lock::LockedFile;
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Plan, PlannedFile, RenderedFile, Task, TaskId, TaskValue};
use kubexm_engine::steps::{Payload, Source};
use kubexm_pki::Pair;
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_pki::registry_login::RegistryLogin;
use kubexm_pki::secret_keys::EncryptionKeys;
use kubexm_render::RenderError;
use kubexm_scripts::Call;
use kubexm_scripts::systemd::JOURNAL;
use kubexm_types::{Arch, Digest, HostName, HostPath, ImageRef, InvalidValue};
pub use linking::CLibrary;
pub use registry::{clients as registry_clients, has_login as registry_has_login};

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
    /// The authorities of a cluster that is restored with kubeadm: a tar archive of files below `/etc/kubernetes/pki`.
    /// Without it, `kubeadm init` creates authorities. Secret.
    pub authorities: Option<Arc<Vec<u8>>>,
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

/// A plan, and the value that it provides for the controller.
pub struct Deployment {
    pub plan: Plan,
    /// The cluster administrator's kubeconfig. Secret.
    pub kubeconfig: TaskValue<String>,
    /// kubeadm's kubeconfig of the group `system:masters`; empty if no host has it any more. Secret.
    pub super_admin: TaskValue<String>,
}

impl Deployment {
    fn new() -> Self {
        Self {
            plan: Plan::default(),
            kubeconfig: TaskValue::new("control_plane.kubeconfig"),
            super_admin: TaskValue::new("control_plane.super_admin"),
        }
    }
}

/// Why a cluster cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The bundle does not contain these parts of the cluster.
    #[error("the bundle does not contain everything that this cluster needs; it is missing:\n  {}", .0.join("\n  "))]
    Incomplete(Vec<String>),
    /// Programs of the bundle do not run with the C library of their hosts.
    #[error("these programs of the bundle do not run on their hosts:\n  {}\nhint: build a bundle with static programs of these components, or install these hosts with a newer distribution; `linking` in the lock of the bundle states what each program needs", .0.join("\n  "))]
    Linking(Vec<String>),
    /// A valid setting of a cluster file that this version cannot install.
    #[error("this version of kubexm cannot install {0}")]
    Unsupported(&'static str),
    /// The cluster's container runtime cannot work in this cluster.
    #[error("{0}")]
    Incompatible(&'static str),
    /// A template failed.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// kubexm created an invalid path or name.
    #[error(transparent)]
    Value(#[from] InvalidValue),
    /// A password cannot be read.
    #[error(transparent)]
    Secret(#[from] kubexm_types::SecretError),
    /// The password of keepalived is not one that its configuration can contain.
    #[error(
        "cannot use the password in spec.highAvailability.keepalived: expected 1 to 8 letters and digits\nhint: keepalived cuts off a longer password; correct the file or the environment variable"
    )]
    KeepalivedPassword,
    /// kubexm cannot read a file on the controller whose content belongs on the hosts.
    #[error("cannot read {path}: {source}")]
    File {
        path: String,
        source: std::io::Error,
    },
}

/// The directory of kubexm's files on hosts.
const ETC: &str = "/etc/kubexm";
const BIN: &str = "/usr/local/bin";

/// Checks that the parts of a cluster work together.
///
/// # Errors
/// The container runtime cannot work in this cluster.
pub fn validate(cluster: &Cluster) -> Result<(), DeployError> {
    runtime::incompatibility(cluster)
        .map_or(Ok(()), |reason| Err(DeployError::Incompatible(reason)))
}

/// Plans the whole installation. The plan depends only on the inputs and on the files that the cluster
/// names.
///
/// # Errors
/// The cluster is not [valid](validate), or the bundle does not contain everything that it needs.
pub fn plan(inputs: &Inputs<'_>) -> Result<Deployment, DeployError> {
    validate(inputs.cluster)?;
    let missing = modules::missing(inputs);
    if !missing.is_empty() {
        return Err(DeployError::Incomplete(missing));
    }
    let mut deployment = Deployment::new();
    for module in MODULES {
        let tasks = module.tasks(inputs, &deployment)?;
        deployment.plan.tasks.extend(tasks);
    }
    let compared = former_files::tasks(inputs, &deployment.plan);
    deployment.plan.tasks.extend(compared);
    remove(&mut deployment.plan, |task| {
        inputs.absent.contains(&task.host)
    });
    hooks::insert(inputs, &mut deployment.plan)?;
    let conflicts = linking::conflicts(&deployment.plan, inputs.lock, &inputs.hosts);
    if conflicts.is_empty() {
        Ok(deployment)
    } else {
        Err(DeployError::Linking(conflicts))
    }
}

/// Removes tasks from a plan. The others do not wait for them.
fn remove(plan: &mut Plan, is_removed: impl Fn(&Task) -> bool) {
    let tasks = plan.tasks.iter();
    let removed: BTreeSet<TaskId> = tasks
        .filter(|task| is_removed(task))
        .map(Task::id)
        .collect();
    plan.tasks.retain(|task| !is_removed(task));
    for task in &mut plan.tasks {
        task.after.retain(|id| !removed.contains(id));
        task.after_end.retain(|id| !removed.contains(id));
    }
}

/// Returns the text of every file that the plan writes on hosts, for `kubexm render`.
pub fn rendered(plan: &Plan) -> BTreeMap<HostName, Vec<RenderedFile>> {
    let mut files: BTreeMap<HostName, Vec<RenderedFile>> = BTreeMap::new();
    for task in &plan.tasks {
        let planned = task.steps.iter().flat_map(|step| step.files());
        let texts = planned.filter_map(PlannedFile::rendered);
        files.entry(task.host.clone()).or_default().extend(texts);
    }
    files
}

impl Inputs<'_> {
    /// Returns the facts of a host. Without facts it assumes the first architecture of the bundle.
    fn host_facts(&self, host: &HostName) -> HostFacts {
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
    fn nodes(&self) -> Vec<&HostSpec> {
        let mut nodes = self.cluster.nodes();
        nodes.retain(|host| !self.absent.contains(&host.name));
        nodes
    }

    /// Returns the architectures of the hosts.
    fn arches(&self) -> BTreeSet<Arch> {
        self.hosts.values().map(|facts| facts.arch).collect()
    }

    /// Returns the newest file of a component for a host's architecture.
    fn file(&self, component: &str, host: &HostName) -> Result<&LockedFile, DeployError> {
        let arch = self.host_facts(host).arch;
        let file = self.lock.file(component, arch);
        file.ok_or_else(|| DeployError::Incomplete(vec![format!("{component} for {arch}")]))
    }

    /// Returns the file of a component in the cluster's Kubernetes version, for a host's architecture.
    fn kubernetes_file(
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
    fn image_of(&self, repository: &str) -> Option<ImageRef> {
        let mut names = self.lock.images.iter().map(|image| &image.name);
        names.find(|name| name.repository() == repository).cloned()
    }

    /// Returns the control plane that runs kubectl: the one that did so before, also if another one that joined later is before it
    /// in the cluster file. Otherwise it is the first one that is a node already, or the first one of all, which runs
    /// `kubeadm init`.
    fn first(&self) -> Option<&HostSpec> {
        let names = &self.cluster.roles.control_plane;
        let is_node = |name: &&HostName| self.host_facts(name).is_node;
        let did_so = |name: &&HostName| is_node(name) && self.host_facts(name).has_cluster_files;
        let mut found = names.iter().find(did_so);
        found = found.or_else(|| names.iter().find(is_node));
        let first = found.or(names.first());
        first.and_then(|name| self.cluster.host(name))
    }

    /// Returns whether the cluster existed before this plan.
    fn cluster_exists(&self) -> bool {
        let first = self.first();
        first.is_some_and(|first| self.host_facts(&first.name).is_node)
    }
}

/// Returns the payload of a program that is a file of the bundle.
fn binary(file: &LockedFile, path: &str) -> Result<Payload, DeployError> {
    let path = HostPath::parse(path)?;
    Ok(Payload {
        source: Source::Blob,
        digest: file.digest,
        size: file.size,
        path,
        mode: 0o755,
    })
}

/// Returns the payloads of the programs in an archive of the bundle, for one directory on a host.
fn members(
    file: &LockedFile,
    dir: &str,
    is_selected: impl Fn(&str) -> bool,
) -> Result<Vec<Payload>, DeployError> {
    let mut payloads = Vec::new();
    for member in &file.members {
        let name = member.path.rsplit('/').next().unwrap_or(&member.path);
        if is_selected(name) {
            let source = Source::Member {
                archive: file.digest,
                path: member.path.clone(),
            };
            let path = HostPath::parse(&format!("{dir}/{name}"))?;
            let (digest, size): (Digest, u64) = (member.digest, member.size);
            payloads.push(Payload {
                source,
                digest,
                size,
                path,
                mode: 0o755,
            });
        }
    }
    Ok(payloads)
}

/// Returns the call that prints the end of a unit's journal, as the diagnosis of a wait.
fn journal(unit: &str, lines: u32) -> Call {
    JOURNAL.with([unit.to_owned(), lines.to_string()])
}
