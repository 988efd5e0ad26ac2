//! The plan of an addition, for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{joined, words};
use kubexm_config::Cluster;
use kubexm_engine::plan::Plan;
use kubexm_host::Facts;
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// Emits what happens on each host, before the first change. Without a host that joins, nothing.
pub(crate) fn describe(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example::cluster_of_four;
    use kubexm_engine::plan::Task;
    use kubexm_engine::steps::RunScript;
    use kubexm_scripts::etcd::MEMBERSHIP;

    fn plan() -> Plan {
        let task = |name: &str| {
            let step = RunScript::new(
                "step",
                "Do something",
                MEMBERSHIP.verb("gone"),
                MEMBERSHIP.verb("remove"),
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
}
