//! From a list of tasks to an order in which they can run.

use std::collections::BTreeMap;

use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};

use super::task::{Plan, TaskId};

/// A plan that cannot be run; always a defect of kubexm.
#[derive(Debug, thiserror::Error)]
#[error("the plan does not hold together: {0}")]
pub struct BrokenPlan(String);

/// The predecessors of every task, by its place in the plan, and an order that respects them.
pub struct Graph {
    /// Tasks that must be done before the one at the same place.
    pub before: Vec<Vec<usize>>,
    /// Places in an order in which every task comes after its predecessors.
    pub order: Vec<usize>,
}

impl Graph {
    /// Checks a plan: unknown predecessors, values that nobody gives, cycles.
    pub fn of(plan: &Plan) -> Result<Self, BrokenPlan> {
        let mut places: BTreeMap<TaskId, usize> = BTreeMap::new();
        let mut givers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, task) in plan.tasks.iter().enumerate() {
            if places.insert(task.id(), place).is_some() {
                return Err(BrokenPlan(format!("the task {} is there twice", task.id())));
            }
            for slot in &task.gives {
                givers.entry(slot).or_default().push(place);
            }
        }
        let mut before = vec![Vec::new(); plan.tasks.len()];
        for (place, task) in plan.tasks.iter().enumerate() {
            for id in &task.after {
                let other = places.get(id).ok_or_else(|| {
                    BrokenPlan(format!("{} waits for {id}, which is not there", task.id()))
                })?;
                before[place].push(*other);
            }
            for slot in &task.needs {
                let others = givers.get(slot).ok_or_else(|| {
                    BrokenPlan(format!("{} needs '{slot}', which nobody gives", task.id()))
                })?;
                before[place].extend(others);
            }
        }
        let order = sorted(plan, &before)?;
        Ok(Self { before, order })
    }
}

fn sorted(plan: &Plan, before: &[Vec<usize>]) -> Result<Vec<usize>, BrokenPlan> {
    let mut graph = DiGraph::<usize, ()>::new();
    let nodes: Vec<NodeIndex> = (0..before.len())
        .map(|place| graph.add_node(place))
        .collect();
    for (place, others) in before.iter().enumerate() {
        for other in others {
            graph.add_edge(nodes[*other], nodes[place], ());
        }
    }
    let order = toposort(&graph, None).map_err(|cycle| {
        BrokenPlan(format!(
            "{} waits for itself",
            plan.tasks[graph[cycle.node_id()]].id()
        ))
    })?;
    Ok(order.into_iter().map(|node| graph[node]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Task;

    fn task(name: &str) -> Task {
        Task::new("m", name, &"node1".parse().unwrap())
    }

    #[test]
    fn values_and_order_make_edges() {
        let mut giver = task("giver");
        giver.gives.push("secret");
        let mut needer = task("needer");
        needer.needs.push("secret");
        let last = task("last").after([needer.id()]);
        let graph = Graph::of(&Plan {
            tasks: vec![last, needer, giver],
        })
        .unwrap();
        assert_eq!(graph.order, [2, 1, 0]);
    }

    #[test]
    fn broken_plans_are_refused() {
        let mut needer = task("needer");
        needer.needs.push("secret");
        let circle = task("a").after([TaskId("m/a@node1".into())]);
        let stray = task("b").after([TaskId("m/none@node1".into())]);
        for tasks in [
            vec![needer],
            vec![circle],
            vec![stray],
            vec![task("x"), task("x")],
        ] {
            assert!(Graph::of(&Plan { tasks }).is_err());
        }
    }
}
