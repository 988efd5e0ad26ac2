//! What a removal looks at before it changes anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::members::{Quorum, after, check_addresses, check_listed};
use super::removal::Context;
use super::text::Purpose;
use crate::upgrade::survey::{Survey, listed};
use kubexm_config::Cluster;
use kubexm_deploy::removal::Leaving;
use kubexm_etcd::{Client, ClientError, Members};
use kubexm_host::{Facts, Host};
use kubexm_preflight::Finding;
use kubexm_session::begun::joined;
use kubexm_session::session::Hosts;
use kubexm_session::{CommandError, older_etcd, preflight};
use kubexm_types::{FindingKind, HostName};

/// How long etcd may refuse to answer after a change of its members.
const AFTER_A_CHANGE: Duration = Duration::from_secs(60);

impl Context<'_> {
    /// Returns the hosts that leave: those that do not work any more come first, because etcd then needs fewer members.
    pub(super) fn leaving(&self, facts: &BTreeMap<HostName, Facts>) -> Vec<Leaving> {
        let names = self.options.names.iter();
        let specs = names.filter_map(|name| self.cluster.host(name));
        let mut leaving: Vec<Leaving> = specs
            .map(|spec| {
                let works = |facts: &Facts| facts.is_node() || !self.cluster.is_node(&spec.name);
                let is_lost = !facts.get(&spec.name).is_some_and(works);
                Leaving::of(self.cluster, spec, is_lost)
            })
            .collect();
        leaving.sort_by_key(|host| !host.is_lost);
        leaving
    }

    /// Returns the control plane that stays and answers questions about the cluster.
    pub(super) fn first<'a>(
        &self,
        hosts: &'a Hosts,
        facts: &BTreeMap<HostName, Facts>,
    ) -> Result<&'a Arc<dyn Host>, CommandError> {
        let mut names = self.remaining.roles.control_plane.iter();
        let is_node = |name: &HostName| facts.get(name).is_some_and(Facts::is_node);
        let first = names.find_map(|name| hosts.get(name).filter(|_| is_node(name)));
        first.ok_or_else(|| {
            CommandError::refused(format!(
                "cannot remove {}: none of the control planes that remain is a node of the \
                 cluster: {}",
                joined(&self.options.names),
                joined(&self.remaining.roles.control_plane)
            ))
            .hint("complete the install first: kubexm install")
        })
    }

    /// Compares the members of etcd before and after. Of a host that does not work, only etcd knows whether the cluster file is
    /// right about whether it has a member.
    ///
    /// # Errors
    /// etcd would lose its quorum, or has a member of a host of which the cluster file does not say so.
    pub(super) async fn quorum(
        &self,
        leaving: &[Leaving],
        hosts: &Hosts,
    ) -> Result<Quorum, CommandError> {
        let Some(kind) = kubexm_etcd::kind(self.cluster) else {
            return Ok(Quorum::default());
        };
        if !leaving.iter().any(|host| host.has_member || host.is_lost) {
            return Ok(Quorum::default());
        }
        let staying = kubexm_etcd::member_names(self.remaining).iter();
        let failed = match first_answer(staying, hosts, kind).await {
            Ok((name, members)) => {
                check_listed(&members, leaving, kind)?;
                check_addresses(&members, leaving)?;
                return Ok(Quorum {
                    asked: Some(name),
                    change: after(&members, leaving)?,
                });
            }
            Err(failed) => failed,
        };
        // A member that leaves knows whether etcd has a quorum, and cannot be the one that removes itself.
        let others = leaving
            .iter()
            .filter(|host| host.has_member && !host.is_lost);
        let others = others.map(|host| &host.spec.name);
        let names = &self.options.names;
        match first_answer(others, hosts, kind).await {
            Ok((_, members)) => {
                after(&members, leaving)?;
                Err(silent(names, &failed))
            }
            Err(_) => {
                let count = kubexm_etcd::member_names(self.cluster).len();
                Err(without_quorum(names, count, &failed))
            }
        }
    }

    pub(super) fn findings(&self, survey: &Survey, leaving: &[Leaving]) -> Vec<Finding> {
        let mut findings: Vec<Finding> = leaving
            .iter()
            .filter_map(|host| left_behind(&host.spec.name, &survey.local_on(&host.spec.name)))
            .collect();
        for host in leaving.iter().filter(|host| !host.is_lost) {
            let pods = survey.unmanaged_on(&host.spec.name);
            if !pods.is_empty() && !self.options.drain.deletes_unmanaged {
                let what = format!(
                    "nothing creates these pods again after their node is drained: {}",
                    listed(&pods)
                );
                let hint = "delete them, or permit it with --drain-force";
                findings.push(Finding::new(
                    FindingKind::Pods,
                    &host.spec.name,
                    true,
                    what,
                    hint,
                ));
            }
        }
        findings
    }

    /// Checks the hosts that stay, and new ones that take the place of others.
    pub(super) async fn preflight(
        &self,
        hosts: &Hosts,
        facts: &BTreeMap<HostName, Facts>,
    ) -> Vec<Finding> {
        let of = |cluster: &Cluster| {
            let hosts = hosts
                .iter()
                .filter(|(name, _)| cluster.host(name).is_some());
            let hosts: Hosts = hosts
                .map(|(name, host)| (name.clone(), Arc::clone(host)))
                .collect();
            let facts = facts.iter().filter(|(name, _)| hosts.contains_key(*name));
            let facts: BTreeMap<HostName, Facts> = facts
                .map(|(name, facts)| (name.clone(), facts.clone()))
                .collect();
            (hosts, facts)
        };
        let (hosts, facts) = match self.purpose {
            Purpose::Remove => of(self.remaining),
            Purpose::Replace => of(self.cluster),
        };
        let cluster = match self.purpose {
            Purpose::Remove => self.remaining,
            Purpose::Replace => self.cluster,
        };
        let mut findings = preflight::check(cluster, &hosts, &facts, self.bundle).await;
        // A removal changes no program of etcd.
        if matches!(self.purpose, Purpose::Replace) {
            findings.extend(older_etcd::findings(cluster, &facts, self.bundle.lock()));
        }
        findings
    }
}

/// Returns the first of these hosts whose member lists the members of etcd, and the list; otherwise why none does.
async fn first_answer<'a>(
    names: impl Iterator<Item = &'a HostName>,
    hosts: &Hosts,
    kind: &str,
) -> Result<(HostName, Members), Vec<String>> {
    let mut failed = Vec::new();
    for name in names {
        let Some(host) = hosts.get(name) else {
            failed.push(format!("{name}: cannot be reached"));
            continue;
        };
        let what = "list the members of etcd";
        match Client::new(host.as_ref(), kind, what)
            .members(Some(AFTER_A_CHANGE))
            .await
        {
            Ok(members) => return Ok((name.clone(), members)),
            Err(error) => failed.push(cause(name, &error)),
        }
    }
    Err(failed)
}

/// Returns why the member of a host does not list the members. The error of a host has its name.
fn cause(name: &HostName, error: &ClientError) -> String {
    match error {
        ClientError::Host(error) => error.message().within(error.host()).text,
        error => format!("{name}: {error}"),
    }
}

/// Warns about persistent volumes that are on a node that leaves, and nowhere else.
fn left_behind(name: &HostName, volumes: &[String]) -> Option<Finding> {
    if volumes.is_empty() {
        return None;
    }
    let what = format!(
        "these PersistentVolumes are on this node only, and pods that claim them cannot start on another one: {}",
        listed(volumes)
    );
    let hint = "copy their data first, or delete the claims and volumes afterwards";
    Some(Finding::new(FindingKind::Volumes, name, false, what, hint))
}

/// Returns the refusal for an etcd with a quorum, of which no member that stays lists the members.
fn silent(leaving: &[HostName], failed: &[String]) -> CommandError {
    CommandError::refused(format!(
        "cannot remove {}: etcd has a quorum, but none of its members that stay answers\n  {}",
        joined(leaving),
        failed.join("\n  ")
    ))
    .hint("correct what is named, then run the same command again")
}

/// Returns the refusal for an etcd of so many members, of which none lists the members.
fn without_quorum(leaving: &[HostName], count: usize, failed: &[String]) -> CommandError {
    let needed = kubexm_etcd::needed(count);
    CommandError::refused(format!(
        "cannot remove {}: etcd has no quorum: of its {count} members, {needed} must be healthy, \
         and none lists the others\n  {}",
        joined(leaving),
        failed.join("\n  ")
    ))
    .hint(format!(
        "start members until {needed} are healthy; if they are lost, kubexm backup restore \
         rebuilds etcd"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_etcd::Unreadable;

    #[test]
    fn volumes_that_no_other_node_has_are_named() {
        let name = "node4".parse().unwrap();
        assert!(left_behind(&name, &[]).is_none());
        let found = left_behind(&name, &["pv-1".to_owned(), "pv-2".to_owned()]).unwrap();
        insta::assert_snapshot!(found, @"
        node4: these PersistentVolumes are on this node only, and pods that claim them cannot start on another one: pv-1, pv-2
          hint: copy their data first, or delete the claims and volumes afterwards
        ");
    }

    /// Before, the refusal had no numbers.
    #[test]
    fn etcd_without_a_quorum_is_refused_with_numbers() {
        let leaving = ["node3".parse().unwrap()];
        let error = ClientError::Unreadable {
            what: "list the members of etcd".to_owned(),
            cause: Unreadable::List,
        };
        let failed = [
            cause(&"node1".parse().unwrap(), &error),
            "node2: cannot be reached".to_owned(),
        ];
        insta::assert_snapshot!(without_quorum(&leaving, 3, &failed), @"
        cannot remove node3: etcd has no quorum: of its 3 members, 2 must be healthy, and none lists the others
          node1: list the members of etcd: the answer is not a list of members
          node2: cannot be reached
        hint: start members until 2 are healthy; if they are lost, kubexm backup restore rebuilds etcd
        ");
    }
}
