//! Workers that an install leaves out because they cannot be used (`--allow-failed`, and hosts that join or are replaced).

use std::collections::{BTreeMap, BTreeSet};

use crate::session::Hosts;
use crate::{CommandError, WorkersLeftOut, session};
use kubexm_config::Cluster;
use kubexm_engine::plan::{Outcome, StepError};
use kubexm_host::{Facts, HostError};
use kubexm_preflight::Finding;
use kubexm_types::event::Events;
use kubexm_types::{HostName, Message, WarningKind};

/// The workers that an install has left out so far, with the causes.
#[derive(Debug, Default)]
pub struct FailedWorkers {
    /// Hosts that the install may leave out. They are workers and nothing else.
    allowed: BTreeSet<HostName>,
    failed: BTreeMap<HostName, String>,
}

impl FailedWorkers {
    /// Starts without failed workers. With `allow`, the install may leave out each host that is a worker and
    /// nothing else.
    pub fn new(cluster: &Cluster, allow: bool) -> Self {
        let roles = &cluster.roles;
        let needed = [
            &roles.control_plane,
            &roles.registry,
            &roles.etcd,
            &roles.load_balancer,
        ];
        let is_needed = |name: &HostName| needed.iter().any(|role| role.contains(name));
        let workers = roles.worker.iter().filter(|name| allow && !is_needed(name));
        Self {
            allowed: workers.cloned().collect(),
            failed: BTreeMap::new(),
        }
    }

    /// Needs these hosts, whatever their roles are.
    pub fn but_for<'a>(mut self, needed: impl IntoIterator<Item = &'a HostName>) -> Self {
        for name in needed {
            self.allowed.remove(name);
        }
        self
    }

    /// Returns whether every worker works.
    pub fn is_empty(&self) -> bool {
        self.failed.is_empty()
    }

    /// Returns the error of an install that left out workers.
    pub fn into_error(self) -> CommandError {
        CommandError::FailedWorkers(WorkersLeftOut(self.failed))
    }

    /// Repeats at the end of a command which workers it has left out.
    pub fn remind(&self, events: &Events) {
        if !self.failed.is_empty() {
            let names: Vec<&str> = self.failed.keys().map(HostName::as_str).collect();
            let text = format!(
                "these workers are left out, and do not know the change: {}",
                names.join(", ")
            );
            events.warn(
                WarningKind::HostLeftOut,
                Message::new(text).hint("when they work again, run kubexm install"),
            );
        }
    }

    /// Returns the names of the workers that the install leaves out.
    pub fn names(&self) -> BTreeSet<HostName> {
        self.failed.keys().cloned().collect()
    }

    /// Leaves out the hosts of these errors.
    ///
    /// # Errors
    /// The install needs one of the hosts. The error lists all of them.
    pub fn leave_out_hosts(
        &mut self,
        errors: Vec<(HostName, HostError)>,
        events: &Events,
    ) -> Result<(), CommandError> {
        if errors.iter().any(|(name, _)| !self.allowed.contains(name)) {
            let errors = errors.into_iter().map(|(_, error)| error);
            return Err(CommandError::Hosts(errors.collect()));
        }
        for (name, error) in errors {
            self.leave_out(&name, error.to_string(), events);
        }
        Ok(())
    }

    /// Leaves out the hosts with findings that prevent an install. Their findings become warnings.
    pub fn leave_out_findings(&mut self, findings: &mut [Finding], events: &Events) {
        for finding in findings {
            if finding.fatal && self.allowed.contains(&finding.host) {
                finding.fatal = false;
                self.leave_out(&finding.host, finding.what.clone(), events);
            }
        }
    }

    /// Leaves out the workers on which a task failed, those that prevented a task of another host, such as a node that
    /// does not become Ready, and those that were lost. Returns whether there is one that was not left out before: the
    /// others can then be installed without it.
    pub async fn leave_out_failed(
        &mut self,
        outcome: &Outcome,
        hosts: &Hosts,
        events: &Events,
    ) -> bool {
        if outcome.failed.is_empty() || outcome.interrupted || self.allowed.is_empty() {
            return false;
        }
        let before = self.failed.len();
        for (task, step, error) in &outcome.failed {
            let name = task.0.rsplit('@').next();
            let name = name.and_then(|name| name.parse().ok());
            if let Some(name) = name.filter(|name| self.allowed.contains(name)) {
                self.leave_out(&name, format!("{step}: {error}"), events);
            } else if let StepError::OtherHosts { hosts, .. } = error {
                for (name, reason) in hosts {
                    if self.allowed.contains(name) {
                        self.leave_out(name, reason.clone(), events);
                    }
                }
            }
        }
        for (name, error) in session::unreachable_by_name(hosts).await {
            if self.allowed.contains(&name) {
                self.leave_out(&name, error.to_string(), events);
            }
        }
        self.failed.len() > before
    }

    fn leave_out(&mut self, name: &HostName, cause: String, events: &Events) {
        if !self.failed.contains_key(name) {
            // Errors of a connection begin with the name.
            let cause = cause.trim_start_matches(&format!("{name}: "));
            events.warn(
                WarningKind::HostLeftOut,
                format!("{name} is left out: {cause}"),
            );
            self.failed.insert(name.clone(), cause.to_owned());
        }
    }

    /// Removes the workers that are left out from the hosts and their facts.
    pub fn remove_from(&self, hosts: &mut Hosts, facts: &mut BTreeMap<HostName, Facts>) {
        hosts.retain(|name, _| !self.failed.contains_key(name));
        facts.retain(|name, _| !self.failed.contains_key(name));
    }
}

#[cfg(test)]
mod tests {
    use kubexm_config::example::cluster_of;
    use kubexm_engine::plan::TaskId;
    use kubexm_host::HostError;

    use super::*;

    fn cluster() -> Cluster {
        let workers = "worker: [node1, node2, node3], registry: [node3]";
        cluster_of(&format!("control-plane: [node1], {workers}"), "", "")
    }

    fn lost(name: &str) -> (HostName, HostError) {
        let name: HostName = name.parse().unwrap();
        let error = HostError::Unreachable {
            host: name.clone(),
            address: "192.0.2.12:22".to_owned(),
            reason: "no answer within 10 seconds".into(),
        };
        (name, error)
    }

    #[test]
    fn only_hosts_that_are_workers_and_nothing_else_can_be_left_out() {
        let events = Events::silent();
        let mut failed = FailedWorkers::new(&cluster(), true);
        for needed in ["node1", "node3"] {
            let both = vec![lost("node2"), lost(needed)];
            let error = failed.leave_out_hosts(both, &events).unwrap_err();
            assert!(matches!(error, CommandError::Hosts(errors) if errors.len() == 2));
            assert!(failed.is_empty());
        }
        failed
            .leave_out_hosts(vec![lost("node2")], &events)
            .unwrap();
        assert_eq!(failed.names(), BTreeSet::from(["node2".parse().unwrap()]));
        insta::assert_snapshot!(failed.into_error(), @"
        the cluster was installed without these workers:
          node2: cannot reach 192.0.2.12:22: no answer within 10 seconds
        hint: repair them, then run the same install again: it adds them to the cluster
        ");
    }

    #[tokio::test]
    async fn worker_that_prevents_a_task_of_another_host_is_left_out() {
        let outcome = |names: &[&str]| {
            let hosts = names.iter().map(|name| {
                let reason = "is not Ready: the network plugin is not initialized";
                (name.parse().unwrap(), reason.to_owned())
            });
            let error = StepError::OtherHosts {
                hosts: hosts.collect(),
                message: "Wait until every node is Ready".into(),
            };
            let task = TaskId("cluster/ready@node1".to_owned());
            Outcome {
                failed: vec![(task, "wait".to_owned(), error)],
                ..Outcome::default()
            }
        };
        let (events, hosts) = (Events::silent(), Hosts::new());
        let mut failed = FailedWorkers::new(&cluster(), true);
        let needed = outcome(&["node1", "node3"]);
        assert!(!failed.leave_out_failed(&needed, &hosts, &events).await);
        let both = outcome(&["node1", "node2"]);
        assert!(failed.leave_out_failed(&both, &hosts, &events).await);
        assert!(!failed.leave_out_failed(&both, &hosts, &events).await);
        insta::assert_snapshot!(failed.into_error(), @"
        the cluster was installed without these workers:
          node2: is not Ready: the network plugin is not initialized
        hint: repair them, then run the same install again: it adds them to the cluster
        ");
        let mut failed = FailedWorkers::new(&cluster(), false);
        assert!(!failed.leave_out_failed(&both, &hosts, &events).await);
    }

    /// Before, a dead worker prevented that a new one joined.
    #[test]
    fn host_that_joins_is_not_left_out() {
        let joining: HostName = "node2".parse().unwrap();
        let mut failed = FailedWorkers::new(&cluster(), true).but_for([&joining]);
        let error = failed.leave_out_hosts(vec![lost("node2")], &Events::silent());
        assert!(matches!(error, Err(CommandError::Hosts(_))));
    }

    #[test]
    fn no_host_is_left_out_unless_the_user_allows_it() {
        let mut failed = FailedWorkers::new(&cluster(), false);
        let error = failed.leave_out_hosts(vec![lost("node2")], &Events::silent());
        assert!(matches!(error, Err(CommandError::Hosts(_))));
    }
}
