//! Where the cluster's data lives.

mod certificates;
mod external;
mod member;
mod release;
mod settings;
mod start;

use super::module::Module;
use super::{DeployError, Deployment, Inputs};
pub use certificates::{EtcdCertificates, MemberCertificates};
use kubexm_config::cluster::{Cluster, Etcd};
use kubexm_engine::plan::{Task, TaskId, TaskName};
use kubexm_engine::steps::WriteFile;
use kubexm_types::{HostName, HostPath};

/// Installs a member's programs and files.
pub(crate) const INSTALL: TaskName = TaskName::new("etcd", "install");
/// Starts a member.
pub(crate) const START: TaskName = TaskName::new("etcd", "start");
/// Records on a member that all members were healthy.
pub(crate) const MARK: TaskName = TaskName::new("etcd", "mark");

/// etcd's ports for clients and for other members, and the one for metrics on loopback.
const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
const METRICS_PORT: u16 = 2381;

/// An etcd that is not kubeadm's, as API servers reach it: files by their places on control planes.
pub(super) struct Client {
    /// `https://host:port`.
    pub(super) endpoints: Vec<String>,
    /// CA certificate.
    pub(super) ca_file: &'static str,
    /// Client certificate.
    pub(super) cert_file: &'static str,
    /// Client key.
    pub(super) key_file: &'static str,
}

/// CA, client certificate and client key of an etcd that is not kubeadm's, on control planes. kubeadm
/// gives the API server their folder: nothing else may be in it.
const CLIENT_FILES: [&str; 3] = [
    "/etc/kubexm/etcd/ca.crt",
    "/etc/kubexm/etcd/client.crt",
    "/etc/kubexm/etcd/client.key",
];

/// How the API servers on these hosts reach etcd; `None` where kubeadm makes it and knows.
///
/// Where each has a member on its own host it asks that one alone, as kubeadm has it: requests to
/// another host that is gone without a word would hang for many seconds.
pub(super) fn client(cluster: &Cluster, servers: &[HostName]) -> Option<Client> {
    let is_member = |name: &HostName| cluster.roles.etcd.contains(name);
    let endpoints = match &cluster.etcd {
        Etcd::External { endpoints, .. } => endpoints.clone(),
        Etcd::Systemd { .. } if servers.iter().all(is_member) => vec![settings::local_endpoint()],
        Etcd::Systemd { .. } => {
            let hosts = cluster.etcd_hosts().into_iter();
            hosts.map(|host| settings::url(host, CLIENT_PORT)).collect()
        }
        Etcd::Kubeadm { .. } => return None,
    };
    let [ca_file, cert_file, key_file] = CLIENT_FILES;
    Some(Client {
        endpoints,
        ca_file,
        cert_file,
        key_file,
    })
}

/// The client's files, for control planes. `kubeadm join` writes them again, from what `upload-certs`
/// took of the first control plane, with these modes.
pub(super) fn client_files(inputs: &Inputs<'_>) -> Result<Vec<WriteFile>, DeployError> {
    let Some(certificates) = &inputs.certificates.etcd else {
        return external::client_files(inputs.cluster);
    };
    let [ca, cert, key] = CLIENT_FILES;
    let client = &certificates.client;
    Ok(vec![
        WriteFile::new(HostPath::parse(ca)?, certificates.ca.clone()),
        WriteFile::new(HostPath::parse(cert)?, client.certificate.clone()),
        WriteFile::secret(HostPath::parse(key)?, client.key.clone()),
    ])
}

/// The members of an etcd that kubexm runs.
pub(super) struct Members;

impl Module for Members {
    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        if !matches!(inputs.cluster.etcd, Etcd::Systemd { .. }) {
            return Vec::new();
        }
        let arches = inputs.arches().into_iter();
        arches
            .filter_map(|arch| release::lacking(inputs, arch))
            .collect()
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        tasks(inputs)
    }
}

/// Installs and starts the members that kubexm runs itself.
///
/// The first time all members start at once, since none is ready before it has found a quorum. Later
/// it is one after another: each is healthy again before the next is restarted, or replaced.
fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let Some(place) = member::Place::of(inputs.cluster) else {
        return Ok(Vec::new());
    };
    let hosts = inputs.cluster.etcd_hosts();
    let formed = hosts
        .iter()
        .any(|host| inputs.machine(&host.name).etcd_formed);
    let installed: Vec<TaskId> = hosts.iter().map(|host| INSTALL.id(&host.name)).collect();
    let started: Vec<TaskId> = hosts.iter().map(|host| START.id(&host.name)).collect();
    let mut tasks = Vec::new();
    for host in &hosts {
        tasks.push(member::install(inputs, host, &place)?);
    }
    for (at, host) in hosts.iter().enumerate() {
        let before = started[..at].last().filter(|_| formed).cloned();
        let task = start::start(inputs.cluster, host, &place, formed)?;
        tasks.push(task.after(installed.clone()).after(before));
    }
    let marks = hosts.iter().map(|host| start::mark(host));
    tasks.extend(marks.map(|task| task.after(started.clone())));
    Ok(tasks)
}

/// Tasks after which etcd answers.
pub(super) fn ready(inputs: &Inputs<'_>) -> Vec<TaskId> {
    if !matches!(inputs.cluster.etcd, Etcd::Systemd { .. }) {
        return Vec::new();
    }
    let hosts = inputs.cluster.etcd_hosts().into_iter();
    hosts.map(|host| MARK.id(&host.name)).collect()
}
