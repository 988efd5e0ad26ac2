//! Kubernetes as systemd units. kubexm issues all certificates on the controller, so hosts join without secrets
//! of the cluster.

mod access;
mod admission;
mod control_plane;
mod files;
mod node;
mod programs;
pub(super) mod rotation;

use super::{first_control_plane, joined};
use crate::{DeployError, Inputs, kubernetes, load_balancer, runtime};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{Kind, Step, Task};
use kubexm_pki::kubernetes::{ClusterPki, KUBE_VIP};
use kubexm_types::Digest;

/// What the error states if the certificates of the cluster are missing.
const NO_CERTIFICATES: &str = "kubernetes.type systemd without certificates";

/// Returns the tasks: programs on all nodes, control planes one after another, then workers.
pub(super) fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let (Some(first), Some(pki)) = (inputs.first(), &inputs.certificates.kubernetes) else {
        return Err(DeployError::Unsupported(NO_CERTIFICATES));
    };
    let mut tasks = Vec::new();
    // Control planes change one after another, so that only one API server restarts at a time.
    let mut before = crate::etcd::healthy(inputs);
    let mut nodes = inputs.nodes();
    // The first one need not be the first of the cluster file. An upgrade drains it before the others. The sort keeps their order.
    nodes.sort_by_key(|host| host.name != first.name);
    for host in nodes {
        tasks.push(programs::programs(inputs, pki, host)?);
        let task = join(inputs, pki, first, host)?;
        let task = load_balancer::after_join(inputs, host, task)?;
        if inputs.cluster.is_control_plane(&host.name) {
            let this = task.id();
            tasks.push(task.after(std::mem::replace(&mut before, vec![this])));
        } else {
            tasks.push(task.after([first_control_plane(first)]));
        }
    }
    tasks.push(admission::admit(inputs, first)?);
    Ok(tasks)
}

/// Returns the task that makes a host a node, without the steps of load balancers. Its id is that of [`joined`].
fn join(
    inputs: &Inputs<'_>,
    pki: &ClusterPki,
    first: &HostSpec,
    host: &HostSpec,
) -> Result<Task, DeployError> {
    let is_first = host.name == first.name;
    let name = match inputs.cluster.is_control_plane(&host.name) {
        true if is_first => kubernetes::INIT,
        true => kubernetes::JOIN_CONTROL_PLANE,
        false => kubernetes::JOIN_WORKER,
    };
    let mut task = name
        .task(&host.name)
        .after([
            runtime::PULL.id(&host.name),
            kubernetes::PROGRAMS.id(&host.name),
        ])
        .after(load_balancer::tasks_before_join(inputs, host));
    debug_assert_eq!(task.id(), joined(inputs, host));
    task = task.step(programs::register_cleanup());
    if let Some(own) = pki.control_planes.get(&host.name) {
        task = control_plane::steps(inputs, pki, own, host, task)?;
        if is_first {
            task = access::steps(inputs, pki, host, task)?;
        }
        if is_first && !load_balancer::is_static_pod(inputs.cluster) {
            task = task.step(access::endpoint(inputs.cluster, host));
        }
    }
    if let Some(own) = pki.nodes.get(&host.name) {
        task = node::steps(inputs, pki, own, host, task)?;
    }
    Ok(task)
}

/// Returns the kubeconfig with which kube-vip connects to the API server of its control plane, and the digest of its
/// certificate.
pub(super) fn kube_vip_kubeconfig(
    inputs: &Inputs<'_>,
    host: &HostSpec,
) -> Result<(String, Digest), DeployError> {
    let pki = inputs.certificates.kubernetes.as_ref();
    let own = pki.and_then(|pki| pki.control_planes.get(&host.name));
    let (Some(pki), Some(pair)) = (pki, own.and_then(|own| own.kube_vip.as_ref())) else {
        return Err(DeployError::Unsupported(NO_CERTIFICATES));
    };
    let server = files::own_server(inputs.cluster, host);
    let text = files::kubeconfig(inputs.cluster, pki, &server, (KUBE_VIP, pair))?;
    // Other CAs also restart it. The text itself has a key.
    let mut public = pair.certificate.clone();
    if pki.trusts_two() {
        public.push_str(&pki.trusted);
    }
    Ok((text, Digest::of(public.as_bytes())))
}

/// Adds the steps of a join that write certificates and kubeconfigs, that restart the programs that read them, and that
/// wait for them. All other files stay as they are.
pub(super) fn renewed(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    let (Some(first), Some(pki)) = (inputs.first(), &inputs.certificates.kubernetes) else {
        return Ok(task);
    };
    if !pki.nodes.contains_key(&host.name) {
        return Ok(task);
    }
    let steps = join(inputs, pki, first, host)?.steps.into_iter();
    Ok(steps.filter(renews).fold(task, Task::step))
}

fn renews(step: &Step) -> bool {
    match step.kind() {
        Kind::Wait => true,
        Kind::Action => false,
        Kind::Ensure => {
            let files = step.files();
            let is_credential = |path: &str| {
                let name = path.strip_prefix("/etc/kubernetes/");
                let is_named = |name: &str| {
                    let ends = [".crt", ".key", ".pub"];
                    (name.starts_with("pki/") && ends.iter().any(|end| name.ends_with(end)))
                        || (!name.contains('/') && name.ends_with(".conf"))
                };
                // The kubelet's copy of the host's name servers has this form, too.
                name.is_some_and(|name| is_named(name) && name != "resolv.conf")
            };
            let mut paths = files.iter().map(|file| file.path.as_str());
            step.id().starts_with("unit ") || (!files.is_empty() && paths.all(is_credential))
        }
    }
}
