//! Plans the restore of etcd from a snapshot, in phases. All programs of the control planes stop before the data of the
//! first member changes, and start again after all members have the same data.

mod nodes;
mod revision;

use std::collections::BTreeSet;
use std::time::Duration;

pub use revision::{LEAST_BUMP, revision_bump, target_revision};

use super::etcd::{self, AllVote};
use super::{DeployError, health, journal, network};
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind};
use kubexm_engine::Limit;
use kubexm_engine::plan::{About, Plan, Task, TaskId, TaskName};
use kubexm_engine::steps::{RunScript, WaitFor};
use kubexm_etcd::{initial_cluster, members, peer_url};
use kubexm_scripts::Call;
use kubexm_scripts::etcd::{RESTORE, Restore};
use kubexm_scripts::kubernetes::{API_SERVER_READY, CONTROL_PLANE};
use kubexm_types::HostName;

/// Creates the new data of a member beside the old one.
const PREPARE: TaskName = TaskName::new("restore", "prepare");
/// Stops the programs of a control plane.
const STOP: TaskName = TaskName::new("restore", "stop");
/// Stops a member.
const STOP_ETCD: TaskName = TaskName::new("restore", "stop-etcd");
/// Replaces the data of a member.
const REPLACE: TaskName = TaskName::new("restore", "replace");
/// Starts a member.
const START_ETCD: TaskName = TaskName::new("restore", "start-etcd");
/// Starts the programs of a control plane.
const START: TaskName = TaskName::new("restore", "start");
/// Removes files of the restore.
const TIDY: TaskName = TaskName::new("restore", "tidy");

/// The programs of a control plane besides etcd. The API server is the first one that starts.
const PROGRAMS: [&str; 3] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

/// How long etcdutl may take.
const DATA: Limit = Limit::new(Duration::from_secs(1800), "the restore of a snapshot");
/// How long the programs of a host may take to stop.
const STOPPING: Limit = Limit::new(Duration::from_secs(420), "the end of programs");
/// How long programs may take until they answer.
const ANSWER: Duration = Duration::from_secs(300);

/// A part of a restore. Each begins after the one before has ended on all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The new data is created beside the old one, while the cluster runs.
    Prepare,
    /// Programs stop, and the new data replaces the old one. From here on, the cluster is down.
    Replace,
    /// etcd starts with the new data.
    Etcd,
    /// Control planes start, one after another.
    ControlPlanes,
    /// Kubelets restart.
    Nodes,
    /// The pod network follows the pod subnets of the nodes.
    PodNetwork,
    /// Files of the restore are removed.
    Tidy,
}

/// What a restore depends on.
#[derive(Debug, Clone, Copy)]
pub struct RestoreInputs<'a> {
    pub cluster: &'a Cluster,
    /// Identifies the restore on all hosts. It is also etcd's token of the new cluster.
    pub id: &'a str,
    /// Nodes that cannot be reached, and do not restart.
    pub absent: &'a BTreeSet<HostName>,
    /// What new hosts need; `None` if the hosts have the cluster of the backup.
    pub new_hosts: Option<NewHosts<'a>>,
    /// What is added to the revisions of the snapshot, by [`revision_bump`].
    pub bump: u64,
    /// The CAs that the API servers use, which objects of the backup can have another one of; `None` to leave these objects.
    pub cas: Option<&'a PresentCas>,
}

/// A restore on new hosts: an install before it has started pods.
#[derive(Debug, Clone, Copy)]
pub struct NewHosts<'a> {
    /// Hosts of the backup that are gone: the cluster forgets their nodes.
    pub gone: &'a [HostName],
}

/// The CAs of a cluster that objects have as well, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentCas {
    pub kubernetes: String,
    pub front_proxy: String,
}

/// Plans a phase.
///
/// # Errors
/// A file of the pod network cannot be rendered.
pub fn restore(given: &RestoreInputs<'_>, phase: Phase) -> Result<Plan, DeployError> {
    let tasks = match phase {
        Phase::Prepare => given.each_member(|host| {
            let step = given.member(
                "restore prepare",
                "Create the new data of etcd beside the old one",
                host,
            );
            PREPARE
                .task(&host.name)
                .step(step("prepared", "prepare").limit(DATA))
        }),
        Phase::Replace => given.replace(),
        Phase::Etcd => given.each_member(|host| {
            let start = given.etcd_program("Start etcd with the new data", "started", "start");
            START_ETCD
                .task(&host.name)
                .step(start)
                .step(given.healthy())
        }),
        Phase::ControlPlanes => given.control_planes(),
        Phase::Nodes => given.nodes(),
        Phase::PodNetwork => {
            network::follow_subnets(given.cluster, &given.present_nodes(), given.id)?
        }
        Phase::Tidy => given.tidy(),
    };
    Ok(Plan { tasks })
}

/// Returns the call that checks whether a member has space for a snapshot of so many bytes and for its new data.
pub fn space_of_member(given: &RestoreInputs<'_>, host: &HostSpec, bytes: u64) -> Call {
    let bytes = bytes.to_string();
    let arguments = given.arguments(host);
    RESTORE.verb("space").with(Restore { bytes, ..arguments })
}

/// Returns the address at which a control plane's own API server answers.
pub fn api_server(cluster: &Cluster, host: &HostSpec) -> String {
    format!("https://{}", cluster.api_server(host))
}

impl RestoreInputs<'_> {
    fn etcd_kind(&self) -> &'static str {
        kubexm_etcd::kind(self.cluster).unwrap_or("kubeadm")
    }

    fn kubernetes_kind(&self) -> &'static str {
        match self.cluster.kubernetes.kind {
            KubernetesKind::Kubeadm => "kubeadm",
            KubernetesKind::Systemd => "systemd",
        }
    }

    fn each_member(&self, task: impl Fn(&HostSpec) -> Task) -> Vec<Task> {
        members(self.cluster).into_iter().map(task).collect()
    }

    fn hosts(&self) -> Vec<&HostSpec> {
        let roles = &self.cluster.roles;
        let names = roles.control_plane.iter();
        names.filter_map(|name| self.cluster.host(name)).collect()
    }

    /// Returns the arguments of `etcd/restore.sh`.
    fn arguments(&self, host: &HostSpec) -> Restore {
        let data = self.cluster.etcd.data_directory();
        Restore {
            id: self.id.to_owned(),
            kind: self.etcd_kind().to_owned(),
            data: data.unwrap_or_default().to_owned(),
            name: host.name.to_string(),
            peer: peer_url(host),
            members: initial_cluster(self.cluster).join(","),
            bump: self.bump.to_string(),
            ..Default::default()
        }
    }

    /// Returns how to make a step of `etcd/restore.sh` from its check and its change.
    fn member<'a>(
        &self,
        id: &'a str,
        title: &'a str,
        host: &HostSpec,
    ) -> impl Fn(&'static str, &'static str) -> RunScript + use<'a> {
        let arguments = self.arguments(host);
        move |check, apply| {
            RunScript::new(id, title, RESTORE.verb(check), RESTORE.verb(apply))
                .arguments(arguments.clone())
        }
    }

    /// Returns a step that stops or starts programs, or restarts them.
    fn programs(
        &self,
        id: &str,
        title: &str,
        kind: &str,
        names: &[&str],
        [check, apply]: [&'static str; 2],
    ) -> RunScript {
        let step = RunScript::new(
            id,
            title,
            CONTROL_PLANE.verb(check),
            CONTROL_PLANE.verb(apply),
        );
        let names = names.iter().copied();
        step.arguments([self.id, kind].into_iter().chain(names))
            .limit(STOPPING)
    }

    fn etcd_program(&self, title: &str, check: &'static str, apply: &'static str) -> RunScript {
        let id = format!("restore etcd {check}");
        self.programs(&id, title, self.etcd_kind(), &["etcd"], [check, apply])
    }

    fn replace(&self) -> Vec<Task> {
        let mut tasks: Vec<Task> = Vec::new();
        for host in self.hosts() {
            let title = "Stop the API server, the controller manager and the scheduler";
            let step = self.programs(
                "restore stop",
                title,
                self.kubernetes_kind(),
                &PROGRAMS,
                ["stopped", "stop"],
            );
            tasks.push(STOP.task(&host.name).step(step));
        }
        let stopped: Vec<TaskId> = tasks.iter().map(Task::id).collect();
        let etcd = self.each_member(|host| {
            let step = self.etcd_program("Stop etcd", "stopped", "stop");
            STOP_ETCD.task(&host.name).after(stopped.clone()).step(step)
        });
        let ended: Vec<TaskId> = etcd.iter().map(Task::id).collect();
        tasks.extend(etcd);
        tasks.extend(self.each_member(|host| {
            let title = "Move the former data of etcd aside, and the new data to its place";
            let step = self.member("restore replace", title, host);
            REPLACE
                .task(&host.name)
                .after(ended.clone())
                .step(step("replaced", "replace"))
        }));
        tasks
    }

    fn healthy(&self) -> AllVote {
        let unit = match self.etcd_kind() {
            "systemd" => etcd::UNIT,
            _ => "kubelet.service",
        };
        AllVote {
            kind: self.etcd_kind(),
            count: members(self.cluster).len(),
            at_most: ANSWER,
            diagnosis: journal(unit, 20),
        }
    }

    /// A control plane starts when the one before answers.
    fn control_planes(&self) -> Vec<Task> {
        let kind = self.kubernetes_kind();
        let mut tasks: Vec<Task> = Vec::new();
        for host in self.hosts() {
            let [api_server, others @ ..] = &PROGRAMS;
            let start = |id: &str, title: &str, names: &[&str]| {
                self.programs(id, title, kind, names, ["started", "start"])
            };
            let unit = match kind {
                "systemd" => "kube-apiserver.service",
                _ => "kubelet.service",
            };
            let ready = WaitFor {
                title: format!("Wait until the API server of {} is ready", host.name),
                script: API_SERVER_READY,
                arguments: Vec::new(),
                at_most: ANSWER,
                diagnosis: journal(unit, 20),
                about: About::Other,
            };
            let title = format!("Wait until the control plane of {} is healthy", host.name);
            let healthy = health::wait(title, health::control_plane(self.cluster).into(), ANSWER);
            let before = tasks.last().map(Task::id);
            let task = START
                .task(&host.name)
                .after(before)
                .step(start(
                    "restore start api-server",
                    "Start the API server",
                    &[api_server],
                ))
                .step(ready)
                .step(start(
                    "restore start",
                    "Start the controller manager and the scheduler",
                    others,
                ))
                .step(healthy);
            tasks.push(task);
        }
        tasks
    }

    fn tidy(&self) -> Vec<Task> {
        let members = members(self.cluster);
        let is_known = |host: &&HostSpec| {
            self.cluster.is_node(&host.name)
                || members.iter().any(|member| member.name == host.name)
        };
        let hosts = self.cluster.hosts.iter().filter(is_known);
        hosts
            .filter(|host| !self.absent.contains(&host.name))
            .map(|host| {
                let step = self.member("restore tidy", "Remove the files of the restore", host);
                TIDY.task(&host.name).step(step("tidy", "remove"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
