//! etcd: members that kubexm runs, and the API servers' connection to an etcd that kubeadm does not run.

mod all_vote;
mod client;
#[cfg(test)]
mod fake_etcd;
mod joining;
mod member;
mod membership;
mod release;
mod settings;
mod start;

use super::module::Module;
use super::rotation_inputs::RotationPhase;
use super::{DeployError, Deployment, Inputs};
pub(super) use all_vote::AllVote;
pub(super) use client::{CLIENT_CA, client, client_files};
use kubexm_bundle::Lock;
use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_engine::plan::{Task, TaskId};
use kubexm_engine::steps::{WaitFor, WriteFile};
use kubexm_types::{Arch, Version};
pub(crate) use member::{INSTALL, MODULE, UNIT, USER};
pub(super) use membership::{Leaves, RemoveMembers, sweep_members};
pub(crate) use start::{MARK, START};

/// Returns the version of etcd that a bundle brings with a version of Kubernetes; `None` if it has none.
pub fn version(
    cluster: &Cluster,
    lock: &Lock,
    kubernetes: &Version,
    arch: Arch,
) -> Option<Version> {
    match cluster.etcd {
        Etcd::Kubeadm { .. } => release::of_kubeadm(lock.kubeadm(kubernetes)?),
        Etcd::Systemd { .. } => {
            release::choose(lock, kubernetes, arch).map(|file| file.version.clone())
        }
        Etcd::External { .. } => None,
    }
}

/// Returns whether the members are systemd units of kubexm.
fn is_run_by_kubexm(cluster: &Cluster) -> bool {
    matches!(cluster.etcd, Etcd::Systemd { .. })
}

/// The members of an etcd that kubexm runs.
pub(super) struct Members;

impl Module for Members {
    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        if !is_run_by_kubexm(inputs.cluster) {
            return Vec::new();
        }
        let arches = inputs.arches().into_iter();
        arches
            .filter_map(|arch| release::missing(inputs, arch))
            .collect()
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        tasks(inputs)
    }
}

/// Returns the tasks that install and start the members.
///
/// The first time all members start at the same time, because a member needs a quorum to become ready. Later
/// they restart one after another: each must be healthy before the next one restarts or is replaced.
fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let Some(user) = member::UserSettings::from_cluster(inputs.cluster) else {
        return Ok(Vec::new());
    };
    let hosts = inputs.cluster.etcd_hosts();
    let formed = hosts
        .iter()
        .any(|host| inputs.host_facts(&host.name).etcd_formed);
    let installed: Vec<TaskId> = hosts.iter().map(|host| INSTALL.id(&host.name)).collect();
    let started: Vec<TaskId> = hosts.iter().map(|host| START.id(&host.name)).collect();
    let mut tasks = Vec::new();
    for host in &hosts {
        tasks.push(member::install(inputs, host, &user)?);
    }
    for (at, host) in hosts.iter().enumerate() {
        let before = started[..at].last().filter(|_| formed).cloned();
        let task = start::start(inputs.cluster, host, &user, formed)?;
        tasks.push(task.after(installed.clone()).after(before));
    }
    let marks = hosts.iter().map(|host| start::mark(host));
    tasks.extend(marks.map(|task| task.after(started.clone())));
    Ok(tasks)
}

/// Adds the steps that write the certificates of a member, and that wait until it answers. etcd reads them for each
/// connection, so it does not restart.
pub(super) fn renewed(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    task: Task,
) -> Result<Task, DeployError> {
    if !is_run_by_kubexm(inputs.cluster) || !inputs.cluster.roles.etcd.contains(&host.name) {
        return Ok(task);
    }
    let files = member::certificates(inputs, host)?.into_iter();
    let task = files.fold(task, Task::step);
    Ok(task.step(start::answers()))
}

/// Adds the steps of a member, and of a control plane as its client, in a phase of the rotation of etcd's CA.
pub(super) fn rotated(
    inputs: &Inputs<'_>,
    phase: RotationPhase,
    host: &HostSpec,
    mut task: Task,
) -> Result<Task, DeployError> {
    if !is_run_by_kubexm(inputs.cluster) {
        return Ok(task);
    }
    let is_written = |file: &WriteFile| {
        phase == RotationPhase::Switch || file.path.as_str().ends_with("/ca.crt")
    };
    let is_client = inputs.cluster.is_control_plane(&host.name);
    let mut files = Vec::new();
    if is_client {
        files.extend(client_files(inputs)?);
    }
    files.extend(member::certificates(inputs, host)?);
    task = files.into_iter().filter(is_written).fold(task, Task::step);
    if !inputs.cluster.roles.etcd.contains(&host.name) {
        return Ok(task);
    }
    if phase != RotationPhase::Switch {
        if is_client {
            task = task.step(start::clients_end(inputs.cluster)?);
        }
        // It reads the CAs only when it starts, and other certificates for each connection.
        task = task.step(start::unit()?);
    }
    Ok(task.step(start::answers()))
}

/// Returns the steps that wait until each member answers, with the hosts on which they run: a member ends only while all others
/// are healthy.
pub(super) fn all_answer(cluster: &Cluster) -> Vec<(&HostSpec, WaitFor)> {
    if !is_run_by_kubexm(cluster) {
        return Vec::new();
    }
    let hosts = cluster.etcd_hosts().into_iter();
    hosts.map(|host| (host, start::answers())).collect()
}

/// Returns the tasks after which all members of kubexm's etcd are healthy.
pub(super) fn healthy(inputs: &Inputs<'_>) -> Vec<TaskId> {
    if !is_run_by_kubexm(inputs.cluster) {
        return Vec::new();
    }
    let hosts = inputs.cluster.etcd_hosts().into_iter();
    hosts.map(|host| MARK.id(&host.name)).collect()
}
