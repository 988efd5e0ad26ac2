//! Plans how a cluster goes back to the version before an upgrade: on one node after another while the API servers run, or
//! together with the [restore](super::backup) of a snapshot.

use super::upgrade::{HopInputs, hop};
use super::{DeployError, Deployment, Inputs, etcd, kubernetes};
use kubexm_config::cluster::{HostSpec, KubernetesKind};
use kubexm_engine::plan::{Plan, TaskName};
use kubexm_engine::steps::RunScript;
use kubexm_scripts::kubernetes::{FORMER, Former};

/// Gives the programs of a host their former version.
const PROGRAMS: TaskName = TaskName::new("rollback", "programs");

/// Plans a [hop] to the former version that keeps etcd as it is: older API servers can use a newer etcd, and an older etcd
/// may not be able to read the data.
///
/// # Errors
/// See [`plan`](super::plan).
pub fn in_place(given: &HopInputs<'_>) -> Result<Deployment, DeployError> {
    let mut deployment = hop(given)?;
    super::remove(&mut deployment.plan, |task| task.module == etcd::MODULE);
    for task in &mut deployment.plan.tasks {
        // kubeadm keeps the manifest of a newer etcd.
        task.steps
            .retain(|step| step.id() != kubernetes::kubeadm::ETCD_SETTINGS);
    }
    Ok(deployment)
}

/// Plans how control planes and members of etcd get their former programs and files. None of these programs runs.
/// `inputs` has the cluster with the former version, and `id` is that of the restore.
///
/// # Errors
/// See [`plan`](super::plan).
pub fn programs(inputs: &Inputs<'_>, id: &str) -> Result<Plan, DeployError> {
    let mut plan = super::plan(inputs)?.plan;
    let mut tasks = Vec::new();
    for host in hosts(inputs) {
        let name = &host.name;
        let sources = [kubernetes::PROGRAMS.id(name), etcd::INSTALL.id(name)];
        let mut task = PROGRAMS.task(name);
        for source in &mut plan.tasks {
            if sources.contains(&source.id()) {
                let steps = std::mem::take(&mut source.steps).into_iter();
                let installs = steps.filter(|step| step.id().starts_with("install "));
                task = installs.fold(task, kubexm_engine::plan::Task::step);
            }
        }
        tasks.push(task.step(files(inputs, id, host)));
    }
    Ok(Plan { tasks })
}

/// Returns control planes and members of etcd.
pub fn hosts<'a>(inputs: &Inputs<'a>) -> Vec<&'a HostSpec> {
    let cluster = inputs.cluster;
    let names = cluster.roles.control_plane.iter();
    let mut hosts: Vec<&HostSpec> = names.filter_map(|name| cluster.host(name)).collect();
    for member in kubexm_etcd::members(cluster) {
        if !hosts.iter().any(|host| host.name == member.name) {
            hosts.push(member);
        }
    }
    hosts
}

fn files(inputs: &Inputs<'_>, id: &str, host: &HostSpec) -> RunScript {
    let cluster = inputs.cluster;
    let kind = match cluster.kubernetes.kind {
        _ if !cluster.is_control_plane(&host.name) => "none",
        KubernetesKind::Kubeadm => "kubeadm",
        KubernetesKind::Systemd => "systemd",
    };
    let version = cluster.kubernetes.version.to_string();
    RunScript::new(
        "former files",
        format!("Put back the files of Kubernetes {version}, and restart the kubelet"),
        FORMER.verb("check"),
        FORMER.verb("apply"),
    )
    .arguments(Former {
        restore: id.to_owned(),
        kind: kind.to_owned(),
        version,
    })
}
