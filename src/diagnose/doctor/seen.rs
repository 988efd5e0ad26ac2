//! Everything that `doctor` read, before it judges.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

use super::answers::Answers;
use super::api::{Answer, Api};
use super::problems;
use crate::status::{self, Problem, StatusReport};
use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, HostSpec};
use kubexm_deploy::objects::{self, Halt, Node};
use kubexm_host::Facts;
use kubexm_operate::logs::LogEntry;
use kubexm_session::command_line::CommandLine;
use kubexm_types::HostName;

/// The unit of the kubelet.
pub(super) const KUBELET: &str = "kubelet.service";

/// What kubexm read.
pub(super) struct Seen {
    pub(super) cluster: Cluster,
    pub(super) line: CommandLine,
    pub(super) report: StatusReport,
    pub(super) facts: BTreeMap<HostName, Facts>,
    pub(super) status: BTreeMap<HostName, status::Answers>,
    pub(super) hosts: BTreeMap<HostName, Answers>,
    pub(super) runtimes: BTreeMap<HostName, Answers>,
    pub(super) logs: BTreeMap<HostName, Logs>,
    /// What the API server answered; `None` if none is ready.
    pub(super) api: Option<Api>,
    /// The nodes by name; `None` if no API server listed them.
    pub(super) nodes: Option<BTreeMap<String, Node>>,
    /// The results of connections by the host that tried and the label of the way.
    pub(super) ways: BTreeMap<HostName, BTreeMap<String, Way>>,
    /// Questions that have no answer, with the cause.
    pub(super) unanswered: Vec<(HostName, String)>,
}

/// The newest entries of the logs of a host.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// The clock of the host, in seconds since 1970.
    pub(super) now: i64,
    pub(super) entries: Vec<LogEntry>,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Ok,
    /// The host answers, and no program listens.
    Refused,
    Timeout,
    /// The network or a firewall reports that there is no way.
    Unreachable,
}

impl Way {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "ok" => Some(Self::Ok),
            "refused" => Some(Self::Refused),
            "timeout" => Some(Self::Timeout),
            "unreachable" => Some(Self::Unreachable),
            _ => None,
        }
    }

    /// Returns whether packets get lost.
    pub(super) fn is_lost(self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable)
    }
}

/// A pod that is not ready.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    /// Namespace and name.
    pub(super) name: String,
    pub(super) node: String,
    pub(super) phase: String,
    /// Seconds since its creation.
    pub(super) age: i64,
    /// Why containers wait or ended: reason, message and image.
    pub(super) waiting: Vec<Waiting>,
    /// Why it is not scheduled.
    pub(super) unscheduled: Option<String>,
}

/// A container that does not run.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) image: String,
}

impl Waiting {
    pub(super) fn is_about_image(&self) -> bool {
        let reasons = [
            "ImagePullBackOff",
            "ErrImagePull",
            "InvalidImageName",
            "ErrImageNeverPull",
        ];
        reasons.contains(&self.reason.as_str())
    }
}

impl Seen {
    /// Returns the hosts that are nodes, in the order of the cluster file.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &HostSpec> {
        let all = self.cluster.hosts.iter();
        all.filter(|host| self.cluster.is_node(&host.name))
    }

    /// Returns what `doctor/host.sh` printed on each host that answered.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (&HostName, &Answers)> {
        let specs = self.cluster.hosts.iter();
        specs.filter_map(|spec| self.hosts.get_key_value(&spec.name))
    }

    /// Returns what `doctor/runtime.sh` printed on each node that answered.
    pub(super) fn runtimes(&self) -> impl Iterator<Item = (&HostName, &Answers)> {
        let specs = self.cluster.hosts.iter();
        specs.filter_map(|spec| self.runtimes.get_key_value(&spec.name))
    }

    /// Returns the problems of `status` that belong to a check.
    pub(super) fn problems(&self, check: &str) -> impl Iterator<Item = &Problem> {
        let all = self.report.problems.iter();
        all.filter(move |problem| problems::check_of(problem) == check)
    }

    /// Returns whether a program on a host is not healthy.
    pub(super) fn is_unhealthy(&self, host: &HostName, program: &str) -> bool {
        let mut hosts = self.report.hosts.iter();
        hosts
            .find(|state| state.host == *host)
            .is_some_and(|state| state.unhealthy.iter().any(|name| name == program))
    }

    /// Returns whether a host reported a unit that does not run.
    pub(super) fn is_down(&self, host: &HostName, unit: &str) -> bool {
        let unit = self.status.get(host).and_then(|own| own.units.get(unit));
        unit.is_some_and(|unit| unit.active != "active")
    }

    /// Returns whether a host reported a unit that runs.
    pub(super) fn is_up(&self, host: &HostName, unit: &str) -> bool {
        let unit = self.status.get(host).and_then(|own| own.units.get(unit));
        unit.is_some_and(|unit| unit.active == "active")
    }

    /// Returns whether kubexm has a connection to the host and its facts.
    pub(super) fn answers(&self, host: &HostName) -> bool {
        self.hosts.contains_key(host)
    }

    /// Returns whether the host answered any question, those of `status` included.
    pub(super) fn has_answer(&self, host: &HostName) -> bool {
        self.answers(host) || self.facts.contains_key(host) || self.status.contains_key(host)
    }

    /// Returns the hosts of the members of etcd that kubexm runs; none for an external etcd.
    pub(super) fn member_hosts(&self) -> &[HostName] {
        match self.cluster.etcd {
            Etcd::Kubeadm { .. } => &self.cluster.roles.control_plane,
            Etcd::Systemd { .. } => &self.cluster.roles.etcd,
            Etcd::External { .. } => &[],
        }
    }

    /// Returns a control plane for commands with kubectl: one whose API server is ready, or the first.
    pub(super) fn administrator(&self) -> &HostName {
        let all = &self.cluster.roles.control_plane;
        let is_ready = |name: &&HostName| {
            let answers = self.status.get(*name);
            answers.and_then(status::is_ready) == Some(true)
        };
        let ready = all.iter().find(is_ready);
        ready.or(all.first()).unwrap_or(&self.cluster.hosts[0].name)
    }

    /// Returns what the API server answered to a question; `None` without an answer.
    pub(super) fn asked<T>(&self, question: fn(&Api) -> &Answer<T>) -> Option<&[T]> {
        question(self.api.as_ref()?).as_deref().ok()
    }

    /// Returns the seconds since a time of the API; 0 for an unknown one.
    pub(super) fn age(&self, time: Option<OffsetDateTime>) -> i64 {
        let now = self.api.as_ref().map_or(0, |api| api.now);
        time.map_or(0, |time| now.saturating_sub(time.unix_timestamp()))
    }

    /// Returns the pods that are not ready; `None` without an API server.
    pub(super) fn pods(&self) -> Option<Vec<Pod>> {
        let pods = self.asked(|api| &api.pods)?;
        Some(pods.iter().map(|pod| self.pod(pod)).collect())
    }

    fn pod(&self, pod: &objects::Pod) -> Pod {
        let name = pod.metadata.path();
        let waiting = pod.halted().map(|(container, halt)| Waiting {
            reason: halt.reason.clone(),
            message: match halt.exit_code {
                0 => halt.message.clone(),
                _ => last_words(&name, halt),
            },
            image: container.image.clone(),
        });
        let unscheduled = pod.condition("PodScheduled");
        let unscheduled = unscheduled.filter(|condition| condition.status == "False");
        Pod {
            node: pod.spec.node_name.clone(),
            phase: pod.status.phase.clone(),
            age: self.age(pod.metadata.creation_timestamp),
            waiting: waiting.collect(),
            unscheduled: unscheduled.map(|condition| condition.message.clone()),
            name,
        }
    }

    /// Returns the nodes with pods that wait for an image, or with pods that are not ready for another reason; `None` without
    /// an API server.
    pub(super) fn nodes_with_pods(&self, waiting_for_images: bool) -> Option<BTreeSet<String>> {
        let waits = |pod: &Pod| pod.waiting.iter().any(|one| one.is_about_image());
        let pods = self.pods()?.into_iter();
        let pods = pods.filter(|pod| waits(pod) == waiting_for_images);
        Some(pods.map(|pod| pod.node).collect())
    }
}

/// Returns why a container ended. The message of a program can be the end of its log, which kubexm only reads of pods of the
/// cluster.
fn last_words(pod: &str, ended: &Halt) -> String {
    if pod.starts_with("kube-") && !ended.message.is_empty() {
        ended.message.clone()
    } else {
        format!("exit status {}", ended.exit_code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_of_programs_of_users_are_not_read() {
        let mut ended = Halt {
            exit_code: 3,
            message: "the password is x".to_owned(),
            ..Halt::default()
        };
        assert_eq!(last_words("shop/kube-web", &ended), "exit status 3");
        assert_eq!(last_words("kube-system/a", &ended), "the password is x");
        ended.message.clear();
        assert_eq!(last_words("kube-system/a", &ended), "exit status 3");
    }
}
