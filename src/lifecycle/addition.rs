//! Hosts that join a cluster: what prevents it, and the plan for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use kubexm_config::Cluster;
use kubexm_engine::cluster::RemovalState;
use kubexm_engine::plan::Plan;
use kubexm_host::Facts;
use kubexm_preflight::Finding;
use kubexm_session::begun::joined;
use kubexm_session::identity::KnownCluster;
use kubexm_types::event::Events;
use kubexm_types::{FindingKind, HostName};

/// Emits what happens on each host, before the first change. Without a host that joins, nothing.
pub fn describe(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    joining: &BTreeSet<HostName>,
    plan: &Plan,
    events: &Events,
) {
    if !joining.is_empty() {
        events.note(text(cluster, facts, joining, plan));
    }
}

fn text(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    joining: &BTreeSet<HostName>,
    plan: &Plan,
) -> String {
    let names = joined(joining);
    let mut text = format!("addition to the cluster '{}': {names}\n", cluster.name);
    for name in joining {
        let tasks = plan.tasks.iter().filter(|task| task.host == *name);
        let steps: usize = tasks.map(|task| task.steps.len()).sum();
        let what = if facts.get(name).is_some_and(Facts::is_node) {
            "complete its install"
        } else {
            "install it as a new host"
        };
        let roles = crate::reset::roles(cluster, name);
        let _ = writeln!(text, "  {name} ({roles})\n    - {what}: {steps} steps");
    }
    let others = facts.keys().filter(|name| !joining.contains(*name));
    let _ = writeln!(
        text,
        "  {}\n    - apply the cluster file with {names}, as an install does: load balancers, registries, names, routes",
        joined(others)
    );
    let members = kubexm_etcd::member_names(cluster);
    if joining.iter().any(|name| members.contains(name)) {
        let (count, needed) = (members.len(), kubexm_etcd::needed(members.len()));
        let _ = writeln!(
            text,
            "members of etcd: {count} afterwards ({}), of which {needed} must be healthy",
            joined(members)
        );
    }
    let _ = write!(
        text,
        "point of no return: none; kubexm node remove {} undoes the addition",
        words(joining)
    );
    text
}

/// Returns the findings that stop a join of exactly these hosts.
pub fn findings(
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
        findings.extend(first.map(|first| {
            Finding::new(FindingKind::Membership, first, true, what.to_owned(), hint)
        }));
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
        findings.push(Finding::new(
            FindingKind::Membership,
            name,
            true,
            what.to_owned(),
            &hint,
        ));
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
        findings.push(Finding::new(
            FindingKind::Membership,
            name,
            true,
            what.to_owned(),
            &hint,
        ));
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
pub fn other_registry(
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
    Some(Finding::new(
        FindingKind::Registry,
        registries.first()?,
        is_fatal,
        what,
        &hint,
    ))
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
    Some(Finding::new(FindingKind::Etcd, first, false, what, hint))
}

/// Joins names for a command.
pub fn words<'a>(names: impl IntoIterator<Item = &'a HostName>) -> String {
    joined(names).replace(',', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_engine::plan::Task;
    use kubexm_engine::steps::RunScript;
    use kubexm_scripts::etcd::FORMED;
    use kubexm_session::example::cluster_of_four;

    fn plan() -> Plan {
        let task = |name: &str| {
            let step = RunScript::new(
                "step",
                "Do something",
                FORMED.verb("check"),
                FORMED.verb("mark"),
            );
            Task::new("module", "task", &name.parse().unwrap()).step(step)
        };
        Plan {
            tasks: ["node1", "node3", "node3", "node4"].map(task).into(),
        }
    }

    fn of(joining: &[&str]) -> String {
        let cluster = cluster_of_four();
        let joining = joining.iter().map(|name| name.parse().unwrap()).collect();
        let known = ["node1", "node2", "node3", "node4"];
        let known = known.map(|name| (name.parse().unwrap(), Facts::default()));
        text(&cluster, &known.into(), &joining, &plan())
    }

    #[test]
    fn plan_names_each_host_and_how_to_undo_it() {
        insta::assert_snapshot!(of(&["node4"]), @"
        addition to the cluster 'example': node4
          node4 (worker)
            - install it as a new host: 1 steps
          node1, node2, node3
            - apply the cluster file with node4, as an install does: load balancers, registries, names, routes
        point of no return: none; kubexm node remove node4 undoes the addition
        ");
        insta::assert_snapshot!(of(&["node3"]), @"
        addition to the cluster 'example': node3
          node3 (control-plane, etcd, loadbalancer)
            - install it as a new host: 2 steps
          node1, node2, node4
            - apply the cluster file with node3, as an install does: load balancers, registries, names, routes
        members of etcd: 3 afterwards (node1, node2, node3), of which 2 must be healthy
        point of no return: none; kubexm node remove node3 undoes the addition
        ");
    }

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
