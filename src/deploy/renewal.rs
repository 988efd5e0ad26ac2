//! Renews the certificates and kubeconfigs of a cluster that exists, on one host after another. It needs no bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{
    Certificates, DeployError, HostFacts, Inputs, etcd, health, kubernetes, load_balancer, registry,
};
use kubexm_bundle::{Blobs, BundleError, Lock};
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind};
use kubexm_engine::plan::{Plan, Task, TaskName, TaskValue};
use kubexm_types::{Digest, HostName};

/// Writes new files, where no program of the cluster works any more with the former ones.
const FILES: TaskName = TaskName::new("certificates", "files");
/// Writes new files, and restarts what reads them only when it starts.
const HOST: TaskName = TaskName::new("certificates", "renew");
/// Lets the kubelets of nodes with expired certificates begin again.
const KUBELET_CREDENTIALS: TaskName = TaskName::new("certificates", "kubelet-credentials");
/// Approves certificates that kubelets request, and fetches the kubeconfigs of administrators.
const CLUSTER: TaskName = TaskName::new("certificates", "cluster");

/// How long the programs of a control plane may take until they answer.
const PROGRAMS: Duration = Duration::from_secs(180);

/// What a renewal depends on.
pub struct RenewalInputs<'a> {
    pub cluster: &'a Cluster,
    pub hosts: BTreeMap<HostName, HostFacts>,
    /// The certificates that kubexm issues, new ones where the renewal includes them.
    pub certificates: Certificates,
    /// The hosts whose certificates are renewed.
    pub selected: &'a BTreeSet<HostName>,
    /// Identifies the renewal. What a host did in an interrupted run with the same ID is not repeated.
    pub id: &'a str,
    /// Whether programs of the control planes refuse each other already, because certificates have expired. All hosts
    /// then get new files before a program must be healthy.
    pub has_expired: bool,
    /// Selected nodes of kubeadm whose kubelet has an expired client certificate.
    pub expired_kubelets: BTreeSet<HostName>,
    /// Certificates of kubeadm that get names of the cluster file, by their paths below `/etc/kubernetes/pki` without `.crt`.
    pub named: BTreeMap<HostName, Vec<&'static str>>,
    /// Whether the controller has a kubeconfig of the group `system:masters`.
    pub has_super_admin: bool,
}

/// The plan of a renewal, and what it provides for the controller.
pub struct Renewal {
    pub plan: Plan,
    /// The administrator's kubeconfig. Secret.
    pub kubeconfig: TaskValue<String>,
    /// The kubeconfig of the group `system:masters`, of a cluster with kubeadm. Secret.
    pub super_admin: TaskValue<String>,
}

/// A bundle without content: a renewal installs no program.
struct NoBlobs;

impl Blobs for NoBlobs {
    fn open(&self, digest: &Digest) -> Result<Box<dyn std::io::Read + Send>, BundleError> {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        Err(BundleError::Io {
            path: self.place(digest),
            source,
        })
    }
}

/// Plans a renewal. Each host has one task, which begins after the task of the host before: it ends when the programs of
/// its host are healthy.
///
/// # Errors
/// A file of the controller that belongs on the hosts cannot be read.
pub fn renewal(given: &RenewalInputs<'_>) -> Result<Renewal, DeployError> {
    let lock = Lock::empty("");
    let hosts = given.hosts.clone();
    let inputs = inputs_without_bundle(given.cluster, &lock, hosts, given.certificates.clone());
    let mut selected = in_order(given.cluster);
    selected.retain(|host| given.selected.contains(&host.name));
    let mut tasks = Vec::new();
    if given.has_expired {
        for host in &selected {
            let task = host_task(&inputs, given, host, FILES.task(&host.name))?;
            tasks.push(files_only(task));
        }
    }
    let credentials = credentials(&inputs, given)?;
    for host in &selected {
        let mut task = HOST.task(&host.name);
        if given.expired_kubelets.contains(&host.name) {
            // It starts with a valid certificate without an API server, and must run before static pods can restart.
            let value = &credentials.value;
            task = kubernetes::kubeadm::kubelet_begins_again(given.id, host, &[], value, task);
        }
        tasks.push(host_task(&inputs, given, host, task)?);
    }
    let kubeconfig = TaskValue::new("certificates.kubeconfig");
    let super_admin = TaskValue::new("certificates.super_admin");
    tasks.extend(cluster_task(
        &inputs,
        given,
        &selected,
        &kubeconfig,
        &super_admin,
    )?);
    tasks.retain(|task| !task.steps.is_empty());
    Ok(Renewal {
        plan: chained(credentials.task.into_iter().chain(tasks)),
        kubeconfig,
        super_admin,
    })
}

/// Returns the inputs of a plan that installs no program. `lock` is empty.
pub(super) fn inputs_without_bundle<'a>(
    cluster: &'a Cluster,
    lock: &'a Lock,
    hosts: BTreeMap<HostName, HostFacts>,
    certificates: Certificates,
) -> Inputs<'a> {
    Inputs {
        cluster,
        lock,
        blobs: Arc::new(NoBlobs),
        hosts,
        absent: BTreeSet::new(),
        leaving: BTreeSet::new(),
        certificates,
    }
}

/// Returns a plan in which each task begins after the task before.
pub(super) fn chained(tasks: impl IntoIterator<Item = Task>) -> Plan {
    let mut plan = Plan::default();
    let mut before = None;
    for task in tasks {
        let id = task.id();
        plan.tasks.push(task.after(before.replace(id)));
    }
    plan
}

/// Returns the hosts in the order of their renewal: members of etcd, control planes, and all others.
pub(super) fn in_order(cluster: &Cluster) -> Vec<&HostSpec> {
    let mut hosts: Vec<&HostSpec> = cluster.hosts.iter().collect();
    // The sort keeps the order of the cluster file among equal hosts.
    hosts.sort_by_key(|host| {
        let is_control_plane = cluster.is_control_plane(&host.name);
        (!cluster.roles.etcd.contains(&host.name), !is_control_plane)
    });
    hosts
}

/// Adds the steps of a host to a task.
fn host_task(
    inputs: &Inputs<'_>,
    given: &RenewalInputs<'_>,
    host: &HostSpec,
    mut task: Task,
) -> Result<Task, DeployError> {
    let cluster = inputs.cluster;
    if !given.has_expired {
        task = load_balancer::leaving(cluster, host, task)?;
    }
    task = etcd::renewed(inputs, host, task)?;
    if cluster.is_control_plane(&host.name) {
        let files = etcd::client_files(inputs)?;
        task = files.into_iter().fold(task, Task::step);
    }
    match cluster.kubernetes.kind {
        KubernetesKind::Kubeadm if cluster.is_control_plane(&host.name) => {
            let named = given.named.get(&host.name).map_or(&[][..], Vec::as_slice);
            task = kubernetes::kubeadm::renewed(inputs, host, given.id, named, task)?;
            let title = format!("Wait until the control plane of {} is healthy", host.name);
            let programs = health::control_plane(cluster).into_iter();
            let programs = programs.chain(health::etcd(cluster)).collect();
            task = task.step(health::wait(title, programs, PROGRAMS));
        }
        KubernetesKind::Kubeadm => {}
        KubernetesKind::Systemd => task = kubernetes::systemd_renewed(inputs, host, task)?,
    }
    if !given.has_expired {
        task = load_balancer::returning(cluster, host, task)?;
    }
    task = load_balancer::renewed(inputs, host, task)?;
    if cluster.roles.registry.contains(&host.name) && cluster.registry.external.is_none() {
        registry::renewed(inputs, &host.name, task)
    } else {
        Ok(task)
    }
}

/// Removes the steps that restart programs, or that wait for them.
fn files_only(mut task: Task) -> Task {
    task.steps.retain(|step| {
        let files = step.files();
        // A manifest restarts its pod.
        let is_manifest = |path: &str| path.starts_with("/etc/kubernetes/manifests/");
        let writes = !files.is_empty() && !files.iter().any(|file| is_manifest(file.path.as_str()));
        writes || step.id() == kubernetes::kubeadm::CERTIFICATE_FILES
    });
    task
}

/// What kubelets with expired certificates need.
struct Credentials {
    value: TaskValue<BTreeMap<HostName, String>>,
    /// The task that provides it; `None` if no kubelet needs it.
    task: Option<Task>,
}

fn credentials(inputs: &Inputs<'_>, given: &RenewalInputs<'_>) -> Result<Credentials, DeployError> {
    let value = TaskValue::new("certificates.kubelets");
    let task = match inputs
        .first()
        .filter(|_| !given.expired_kubelets.is_empty())
    {
        None => None,
        Some(first) => {
            let nodes = &given.expired_kubelets;
            let step =
                kubernetes::kubeadm::kubelet_credentials(inputs, first, nodes, value.clone())?;
            Some(KUBELET_CREDENTIALS.task(&first.name).step(step))
        }
    };
    Ok(Credentials { value, task })
}

/// Returns the last task, on the first control plane.
fn cluster_task(
    inputs: &Inputs<'_>,
    given: &RenewalInputs<'_>,
    selected: &[&HostSpec],
    kubeconfig: &TaskValue<String>,
    super_admin: &TaskValue<String>,
) -> Result<Option<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(None);
    };
    let mut task = CLUSTER.task(&first.name);
    let nodes: Vec<&HostSpec> = inputs
        .nodes()
        .into_iter()
        .filter(|node| selected.iter().any(|host| host.name == node.name))
        .collect();
    if !nodes.is_empty() {
        task = task.step(kubernetes::approve_serving(&nodes));
    }
    if given.selected.contains(&first.name) {
        task = task.step(kubernetes::kubeconfig::fetch_kubeconfig(
            inputs, first, kubeconfig,
        ));
        if given.has_super_admin && inputs.cluster.kubernetes.kind == KubernetesKind::Kubeadm {
            task = task.step(kubernetes::kubeadm::super_admin(
                inputs,
                first,
                super_admin,
            )?);
        }
    }
    Ok(Some(task))
}

#[cfg(test)]
pub(super) mod tests;
