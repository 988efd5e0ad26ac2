//! `node add`.

use std::collections::{BTreeMap, BTreeSet};

use super::{check_names, joined, words};
use crate::identity::KnownCluster;
use crate::install::{self, DryRun, InstallOptions, InstallReport};
use crate::rollback::{self, Newest};
use crate::{CommandError, Stop};
use kubexm_config::Cluster;
use kubexm_engine::cluster::RemovalState;
use kubexm_host::Facts;
use kubexm_preflight::Finding;
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// Which hosts join a cluster.
#[derive(Debug, Clone)]
pub struct AddOptions {
    /// The install that adds them. `admitted` and `allow_failed` have no effect: the command needs these hosts, and leaves out
    /// other workers that fail or cannot be reached.
    pub install: InstallOptions,
    /// The hosts.
    pub names: Vec<HostName>,
}

/// Adds hosts of the cluster file to a cluster that exists, and no others.
///
/// # Errors
/// As an install; the cluster does not exist, or other hosts of the cluster file are not in the cluster either.
pub async fn add(
    options: &AddOptions,
    events: &Events,
    stop: &Stop,
) -> Result<InstallReport, CommandError> {
    let (install, newest) = of_these(options, events)?;
    let added = install::install_others(&install, events, stop).await;
    let (report, left_out) = added.map_err(|error| with_bundle(error, newest.as_ref()))?;
    left_out.remind(events);
    Ok(report)
}

/// Returns what [`add`] would do. Changes no host and no state.
///
/// # Errors
/// As [`add`].
pub async fn add_dry_run(
    options: &AddOptions,
    events: &Events,
    stop: &Stop,
) -> Result<DryRun, CommandError> {
    let (install, newest) = of_these(options, events)?;
    let found = install::dry_run(&install, events, stop).await;
    found.map_err(|error| with_bundle(error, newest.as_ref()))
}

/// Returns the install that adds only these hosts, and the newest bundle that the cluster was installed from.
fn of_these(
    options: &AddOptions,
    events: &Events,
) -> Result<(InstallOptions, Option<Newest>), CommandError> {
    let cluster = kubexm_config::load_cluster(&options.install.source.cluster)?;
    let hint = "add the host to spec.hosts and to its roles in the cluster file first";
    check_names(&cluster, &options.names, hint)?;
    let mut install = options.install.clone();
    install.admitted = Some(options.names.iter().cloned().collect());
    install.allow_failed = true;
    let state = install.connection.state_directory(&cluster, events)?;
    Ok((install, rollback::newest(&state)?))
}

/// Adds which bundle is necessary, if the bundle does not have the version of the cluster.
fn with_bundle(error: CommandError, newest: Option<&Newest>) -> CommandError {
    match error {
        CommandError::Problems(mut problems) => {
            for problem in &mut problems.list {
                if problem.path == "spec.kubernetes.version" {
                    let newest = newest.map_or_else(String::new, |newest| {
                        format!(": '{}', created {}", newest.name, newest.created)
                    });
                    problem.hint = Some(format!(
                        "new nodes get the version of the cluster: use the bundle that it was installed from last{newest}"
                    ));
                }
            }
            CommandError::Problems(problems)
        }
        error => error,
    }
}

/// Returns what prevents that exactly these hosts join the cluster.
pub(crate) fn findings(
    cluster: &Cluster,
    known: &KnownCluster,
    facts: &BTreeMap<HostName, Facts>,
    admitted: &BTreeSet<HostName>,
) -> Vec<Finding> {
    let is_node = |name: &HostName| facts.get(name).is_some_and(Facts::is_node);
    let mut findings = Vec::new();
    if !cluster.roles.control_plane.iter().any(is_node) {
        let what = "no control plane of the cluster file is a node of a cluster yet";
        let hint = "kubexm install creates the cluster with all of its hosts";
        let first = cluster.roles.control_plane.first().into_iter();
        findings.extend(first.map(|first| Finding::new(first, true, what.to_owned(), hint)));
        return findings;
    }
    for name in strangers(cluster, known, facts, admitted) {
        let what = "is not in the cluster yet, and the command does not name it";
        let hint = if admitted.is_empty() {
            format!("add it first: kubexm node add {name}; or remove it from the cluster file")
        } else {
            format!(
                "add it with the same command: kubexm node add {} {name}; or remove it from the cluster file",
                words(admitted)
            )
        };
        findings.push(Finding::new(name, true, what.to_owned(), &hint));
    }
    let removed = known.removed();
    // A member of etcd that is not a node has a receipt.
    let is_former =
        |name: &HostName| is_node(name) || facts.get(name).is_some_and(|facts| facts.receipt);
    let members = kubexm_etcd::member_names(cluster);
    for name in admitted.iter().filter(|name| is_former(name)) {
        let (what, hint) = match removed.get(name).map(|removal| removal.state) {
            Some(RemovalState::WithoutContact) => (
                "was removed without contact, and still has everything of the time before",
                format!("reset it first: kubexm node remove {name}"),
            ),
            // Its member may have left etcd already, which accepts it with its data no more.
            Some(RemovalState::Begun) if members.contains(name) => (
                "is a member of etcd whose removal has begun and is not complete",
                format!("complete it first: kubexm node remove {name}; then add the host again"),
            ),
            _ => continue,
        };
        findings.push(Finding::new(name, true, what.to_owned(), &hint));
    }
    findings.extend(even_members(cluster, facts, admitted));
    findings
}

/// Returns the hosts of a cluster file that are neither in the cluster nor in the list. Hosts without facts do not count.
pub(super) fn strangers<'a>(
    cluster: &'a Cluster,
    known: &KnownCluster,
    facts: &BTreeMap<HostName, Facts>,
    admitted: &BTreeSet<HostName>,
) -> Vec<&'a HostName> {
    let recorded: BTreeSet<&HostName> = known.hosts().collect();
    let is_in = |name: &HostName, facts: &Facts| {
        recorded.contains(name) && (facts.is_node() || !cluster.is_node(name))
    };
    let names = cluster.hosts.iter().map(|host| &host.name);
    let is_stranger = |name: &&HostName| {
        let is_out = facts.get(*name).is_some_and(|facts| !is_in(name, facts));
        is_out && !admitted.contains(*name)
    };
    names.filter(is_stranger).collect()
}

/// Returns why the registries of the cluster cannot be those of the cluster file: none of them has a registry yet, and another
/// host has one. Without roleGroups.registry, the first control plane of the file has the registry. `is_fatal` refuses it.
pub(crate) fn other_registry(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    is_fatal: bool,
) -> Option<Finding> {
    let has_registry = |name: &HostName| facts.get(name).is_some_and(Facts::has_registry);
    let registries = &cluster.roles.registry;
    if cluster.registry.external.is_some() || registries.iter().any(has_registry) {
        return None;
    }
    let present = facts.keys().find(|name| has_registry(name))?;
    let what = format!(
        "would have the registry of the cluster, which {present} has: images of `kubexm registry add` are there only"
    );
    let hint = format!(
        "write registry: [{present}] into roleGroups of the cluster file; kubexm registry move moves the content"
    );
    Some(Finding::new(registries.first()?, is_fatal, what, &hint))
}

/// Warns about a number of members of etcd that tolerates no more failures than one less.
fn even_members(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    admitted: &BTreeSet<HostName>,
) -> Option<Finding> {
    let members = kubexm_etcd::member_names(cluster);
    let is_new = |name: &&HostName| {
        admitted.contains(*name) && !facts.get(*name).is_some_and(Facts::is_node)
    };
    let first = members.iter().find(is_new)?;
    let count = members.len();
    if count % 2 == 1 {
        return None;
    }
    let tolerated = (count - 1) / 2;
    let what = format!(
        "with it, etcd has {count} members ({}), of which {} must be healthy: it tolerates the loss of {tolerated}, as with \
         {} members",
        joined(members),
        kubexm_etcd::needed(count),
        count - 1
    );
    let hint = "add one more control plane, so that the number is odd";
    Some(Finding::new(first, false, what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example::cluster_of_four;

    /// Before, the registry went to a control plane that was written before the others.
    #[test]
    fn registry_stays_where_it_is() {
        let cluster = cluster_of_four();
        let with_registry = |name: &str| {
            let facts = |host: &str| Facts {
                registry_login: (host == name).then_some(false),
                ..Facts::default()
            };
            let hosts = ["node1", "node2", "node3", "node4"];
            let hosts = hosts.map(|host| (host.parse().unwrap(), facts(host)));
            let found = other_registry(&cluster, &hosts.into(), true);
            found.map_or_else(String::new, |finding| finding.to_string())
        };
        assert_eq!(with_registry("node1"), "");
        assert_eq!(with_registry("none"), "");
        insta::assert_snapshot!(with_registry("node2"), @"
        node1: would have the registry of the cluster, which node2 has: images of `kubexm registry add` are there only
          hint: write registry: [node2] into roleGroups of the cluster file; kubexm registry move moves the content
        ");
    }
}
