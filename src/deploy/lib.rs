//! The modules of a cluster ([`module`]): each turns configuration, facts and bundle into tasks. None
//! opens a connection.

mod dns;
mod etcd;
#[cfg(test)]
mod example;
mod finish;
mod images;
mod kubernetes;
mod load_balancer;
mod manifest;
mod module;
mod modules;
mod network;
mod network_manager;
mod os;
pub mod proof;
mod registry;
mod runtime;
mod traces;
mod unseen;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use modules::MODULES;
pub use runtime::data_dir as runtime_data_dir;

pub use etcd::{EtcdCertificates, MemberCertificates};
use kubexm_bundle::lock::LockedFile;
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Plan, PlannedFile, RenderedFile, Slot};
use kubexm_engine::steps::{Payload, Source};
use kubexm_pki::Pair;
use kubexm_pki::kubernetes::ClusterPki;
use kubexm_render::RenderError;
use kubexm_scripts::Call;
use kubexm_scripts::systemd::JOURNAL;
use kubexm_types::{Arch, Digest, HostName, HostPath, ImageRef, InvalidValue};

/// What is known of a machine when planning.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Architecture.
    pub arch: Arch,
    /// Distribution and release, in all ways in which a bundle may name them.
    pub releases: Vec<(String, String)>,
    /// Whether its resolv.conf names a server.
    pub has_name_server: bool,
    /// Whether it is a node already.
    pub is_node: bool,
    /// Whether the etcd that kubexm runs on it was once whole.
    pub etcd_formed: bool,
    /// Whether NetworkManager runs on it.
    pub has_network_manager: bool,
}

/// What kubexm's own CA made for the cluster.
#[derive(Clone)]
pub struct Certificates {
    /// The CA, PEM.
    pub ca: String,
    /// The registry's server certificate.
    pub registry: Pair,
    /// Those of an etcd that kubexm runs; `None` where it runs none.
    pub etcd: Option<EtcdCertificates>,
    /// Kubernetes' own, where kubeadm does not make them.
    pub kubernetes: Option<Arc<ClusterPki>>,
}

/// Everything a plan is made from.
pub struct Inputs<'a> {
    /// What the user wants.
    pub cluster: &'a Cluster,
    /// What the bundle has.
    pub lock: &'a Lock,
    /// The bundle.
    pub blobs: Arc<dyn Blobs>,
    /// What the machines are.
    pub machines: BTreeMap<HostName, Machine>,
    /// kubexm's certificates.
    pub certificates: Certificates,
}

/// A plan and what it will have given when it is through.
pub struct Deployment {
    /// The plan.
    pub plan: Plan,
    /// The cluster administrator's kubeconfig. Secret.
    pub kubeconfig: Slot<String>,
}

impl Deployment {
    fn new() -> Self {
        Self {
            plan: Plan::default(),
            kubeconfig: Slot::new("control_plane.kubeconfig"),
        }
    }
}

/// Why there can be no plan. All reasons are told at once.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The bundle lacks what the cluster needs.
    #[error("the bundle lacks what this cluster needs:\n  {}", .0.join("\n  "))]
    Incomplete(Vec<String>),
    /// Something that `cluster.yaml` may say and this version cannot install.
    #[error("this version of kubexm cannot install {0} yet")]
    Unsupported(&'static str),
    /// What the cluster's runtime cannot do.
    #[error("{0}")]
    Refused(&'static str),
    /// A template failed.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// A path or name that kubexm makes is wrong.
    #[error(transparent)]
    Value(#[from] InvalidValue),
    /// A file of this machine that shall go to the hosts cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Folder of kubexm's own files on hosts.
const ETC: &str = "/etc/kubexm";
const BIN: &str = "/usr/local/bin";

/// Whether what the cluster is made of works together, as far as the parts themselves know it.
///
/// # Errors
/// What does not, and what to do then.
pub fn admit(cluster: &Cluster) -> Result<(), DeployError> {
    runtime::refusal(cluster).map_or(Ok(()), |refusal| Err(DeployError::Refused(refusal)))
}

/// Plans the whole installation. The plan depends on nothing but the inputs, and on the files that the
/// cluster names.
///
/// # Errors
/// The cluster is not [admitted](admit), or the bundle does not have what it needs.
pub fn plan(inputs: &Inputs<'_>) -> Result<Deployment, DeployError> {
    admit(inputs.cluster)?;
    let missing = modules::missing(inputs);
    if !missing.is_empty() {
        return Err(DeployError::Incomplete(missing));
    }
    let mut deployment = Deployment::new();
    for module in MODULES {
        let tasks = module.tasks(inputs, &deployment)?;
        deployment.plan.tasks.extend(tasks);
    }
    Ok(deployment)
}

/// Returns the text of every file that the plan puts on hosts, as `kubexm render` writes it.
pub fn rendered(plan: &Plan) -> BTreeMap<HostName, Vec<RenderedFile>> {
    let mut files: BTreeMap<HostName, Vec<RenderedFile>> = BTreeMap::new();
    for task in &plan.tasks {
        let of_task = task.steps.iter().flat_map(|step| step.files());
        let texts = of_task.filter_map(PlannedFile::rendered);
        files.entry(task.host.clone()).or_default().extend(texts);
    }
    files
}

impl Inputs<'_> {
    fn machine(&self, host: &HostName) -> Machine {
        // Hosts that nobody has looked at are taken for the bundle's first architecture.
        let arch = self
            .lock
            .architectures
            .first()
            .copied()
            .unwrap_or(Arch::Amd64);
        let machine = self.machines.get(host).cloned();
        machine.unwrap_or_else(|| Machine::unseen(arch))
    }

    /// What the cluster's machines are.
    fn arches(&self) -> BTreeSet<Arch> {
        self.machines.values().map(|machine| machine.arch).collect()
    }

    fn file(&self, component: &str, host: &HostName) -> Result<&LockedFile, DeployError> {
        let arch = self.machine(host).arch;
        let file = self.lock.file(component, arch);
        file.ok_or_else(|| DeployError::Incomplete(vec![format!("{component} for {arch}")]))
    }

    fn kubernetes_file(
        &self,
        component: &str,
        host: &HostName,
    ) -> Result<&LockedFile, DeployError> {
        let (arch, version) = (self.machine(host).arch, &self.cluster.kubernetes.version);
        let file = self.lock.file_version(component, version, arch);
        file.ok_or_else(|| {
            DeployError::Incomplete(vec![format!("{component} {version} for {arch}")])
        })
    }

    /// The image of a repository, in whichever version the bundle has it.
    fn image_of(&self, repository: &str) -> Option<ImageRef> {
        let mut names = self.lock.images.iter().map(|image| &image.name);
        names.find(|name| name.repository() == repository).cloned()
    }

    /// The first control plane: it runs `kubeadm init`, and kubectl.
    fn first(&self) -> Option<&HostSpec> {
        self.cluster
            .roles
            .control_plane
            .first()
            .and_then(|name| self.cluster.host(name))
    }
}

/// A whole file of the bundle, as it shall be on a host.
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

/// The files of an archive of the bundle, in one folder of a host.
fn members(
    file: &LockedFile,
    folder: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Payload>, DeployError> {
    let mut payloads = Vec::new();
    for member in &file.members {
        let name = member.path.rsplit('/').next().unwrap_or(&member.path);
        if wanted(name) {
            let source = Source::Member {
                archive: file.digest,
                path: member.path.clone(),
            };
            let path = HostPath::parse(&format!("{folder}/{name}"))?;
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

/// Prints the end of a unit's journal, for a wait that failed.
fn journal(unit: &str, lines: u32) -> Call {
    JOURNAL.with([unit.to_owned(), lines.to_string()])
}
