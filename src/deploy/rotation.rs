//! Replaces authorities of a cluster that exists, in phases. Each phase is a plan: it works on one host after another, and
//! every host is healthy before the next one begins. It needs no bundle.

use std::collections::BTreeSet;
use std::time::Duration;

use super::kubernetes::aggregated_cas::AggregatedCas;
use super::kubernetes::nodes::NodesWait;
use super::kubernetes::trusted_cas::TrustedCas;
use super::renewal::{chained, in_order, inputs_without_bundle};
use super::{DeployError, Inputs, etcd, health, kubernetes, load_balancer, registry};
use kubexm_bundle::Lock;
use kubexm_config::cluster::{HostSpec, KubernetesKind};
use kubexm_engine::plan::{Task, TaskName, TaskValue};
use kubexm_types::{Authority, HostName};

pub use super::renewal::Renewal as Rotation;
pub use super::rotation_inputs::{RotatedAuthority, RotationInputs, RotationPhase};

/// Waits until a member of etcd answers.
const MEMBER: TaskName = TaskName::new("rotation", "member");
/// Changes the files of a host, and restarts what reads them only when it starts.
const HOST: TaskName = TaskName::new("rotation", "host");
/// Issues certificates with which kubelets request others.
const CREDENTIALS: TaskName = TaskName::new("rotation", "kubelet-credentials");
/// Lets a kubelet request certificates.
const KUBELET: TaskName = TaskName::new("rotation", "kubelet");
/// Changes objects of the cluster, and fetches the kubeconfigs of administrators.
const CLUSTER: TaskName = TaskName::new("rotation", "cluster");
/// How long the programs of a control plane may take until they answer.
const PROGRAMS: Duration = Duration::from_secs(180);

/// Plans a phase. Each task begins after the task before.
///
/// # Errors
/// A file cannot be rendered.
pub fn rotation(given: &RotationInputs<'_>) -> Result<Rotation, DeployError> {
    let lock = Lock::empty("");
    let hosts = given.hosts.clone();
    let inputs = inputs_without_bundle(given.cluster, &lock, hosts, given.certificates.clone());
    let kubeconfig = TaskValue::new("certificates.kubeconfig");
    let super_admin = TaskValue::new("certificates.super_admin");
    let mut tasks = Vec::new();
    if given.replaces_ca_of_members() {
        // A member that restarts while another one is down would end the quorum.
        let members = etcd::all_answer(given.cluster).into_iter();
        tasks.extend(members.map(|(host, wait)| MEMBER.task(&host.name).step(wait)));
    }
    for host in in_order(given.cluster) {
        tasks.push(host_task(&inputs, given, host)?);
    }
    if given.phase == RotationPhase::Switch && given.trusted_cas().is_some() {
        tasks.extend(kubelet_tasks(&inputs, given)?);
    }
    tasks.extend(cluster_task(&inputs, given, &kubeconfig, &super_admin)?);
    tasks.retain(|task| !task.steps.is_empty());
    Ok(Rotation {
        plan: chained(tasks),
        kubeconfig,
        super_admin,
    })
}

fn host_task(
    inputs: &Inputs<'_>,
    given: &RotationInputs<'_>,
    host: &HostSpec,
) -> Result<Task, DeployError> {
    let cluster = inputs.cluster;
    let mut task = HOST.task(&host.name);
    let is_changed = given
        .authorities
        .keys()
        .any(|authority| *authority != Authority::Registry);
    if is_changed {
        task = load_balancer::leaving(cluster, host, task)?;
    }
    if given.replaces_ca_of_registry() {
        task = registry::rotated(inputs, given.phase, host, task)?;
    }
    if given.replaces_ca_of_members() {
        task = etcd::rotated(inputs, given.phase, host, task)?;
    }
    if cluster.is_node(&host.name) {
        task = kubernetes::rotated(inputs, given, host, task)?;
    }
    if is_changed {
        task = load_balancer::returning(cluster, host, task)?;
    }
    if given.trusted_cas().is_some() || given.issues() {
        task = load_balancer::renewed(inputs, host, task)?;
    }
    if is_changed && kubernetes::is_kubeadm(cluster) && cluster.is_control_plane(&host.name) {
        let title = format!("Wait until the control plane of {} is healthy", host.name);
        let programs = health::control_plane(cluster).into_iter();
        let programs = programs.chain(health::etcd(cluster)).collect();
        task = task.step(health::wait(title, programs, PROGRAMS));
    }
    Ok(task)
}

/// Returns the tasks after which each kubelet has certificates of the new CA. All controller managers sign with it by then.
fn kubelet_tasks(
    inputs: &Inputs<'_>,
    given: &RotationInputs<'_>,
) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(Vec::new());
    };
    let nodes = inputs.nodes();
    let names: BTreeSet<HostName> = nodes.iter().map(|host| host.name.clone()).collect();
    let value = TaskValue::new("certificates.kubelets");
    let mut tasks = Vec::new();
    if kubernetes::is_kubeadm(given.cluster) {
        let issue = kubernetes::kubeadm::kubelet_credentials(inputs, first, &names, value.clone())?;
        tasks.push(CREDENTIALS.task(&first.name).step(issue));
    }
    for host in &nodes {
        let task = KUBELET.task(&host.name);
        tasks.push(match given.cluster.kubernetes.kind {
            KubernetesKind::Kubeadm => {
                kubernetes::kubeadm::rotated_kubelet(given, host, &value, task)
            }
            // kubexm has issued certificates for them.
            KubernetesKind::Systemd => kubernetes::systemd_rotated_kubelet(given, task),
        });
        // No other program approves the requests of kubelets, and without a certificate the API server cannot connect to one.
        let approve = Task::new("rotation", &format!("approve-{}", host.name), &first.name);
        tasks.push(approve.step(kubernetes::approve_serving(&[host])));
    }
    Ok(tasks)
}

fn cluster_task(
    inputs: &Inputs<'_>,
    given: &RotationInputs<'_>,
    kubeconfig: &TaskValue<String>,
    super_admin: &TaskValue<String>,
) -> Result<Option<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(None);
    };
    let mut task = CLUSTER.task(&first.name);
    let nodes = inputs.nodes();
    if let Some(trusted) = given.trusted_cas() {
        task = task
            .step(TrustedCas(trusted.to_owned()))
            .step(NodesWait::ready(&nodes, Duration::from_secs(300)));
    }
    if let Some(step) = at_the_end(given) {
        task = task.step(step);
    }
    if given.issues() || given.trusted_cas().is_some() {
        task = task.step(kubernetes::kubeconfig::fetch_kubeconfig(
            inputs, first, kubeconfig,
        ));
    }
    if given.issues() && given.has_super_admin {
        let issue = kubernetes::kubeadm::super_admin(inputs, first, super_admin)?;
        task = task.step(issue);
    }
    Ok(Some(task))
}

/// Returns the step after which kube-scheduler and aggregated API servers do not trust an authority any more that the API servers do
/// not trust; `None` before the end of a rotation.
fn at_the_end(given: &RotationInputs<'_>) -> Option<AggregatedCas> {
    let is_end = matches!(given.phase, RotationPhase::Remove | RotationPhase::Cancel);
    let trusted = |authority| {
        let own = given.authorities.get(&authority)?;
        Some(own.trusted.clone())
    };
    let cas = [
        trusted(Authority::Kubernetes),
        trusted(Authority::FrontProxy),
    ];
    let is_needed = is_end && cas.iter().any(Option::is_some);
    let [clients, proxies] = cas.map(Option::unwrap_or_default);
    is_needed.then_some(AggregatedCas { clients, proxies })
}

#[cfg(test)]
mod tests;
