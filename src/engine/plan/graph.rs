//! From a list of tasks to an order in which they can run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

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

/// Sorts places topologically. Of all tasks that can run, the first of the plan comes first, so that hosts
/// appear in the order of the cluster file.
fn sorted(plan: &Plan, before: &[Vec<usize>]) -> Result<Vec<usize>, BrokenPlan> {
    let mut after = vec![Vec::new(); before.len()];
    let mut waiting: Vec<usize> = before.iter().map(Vec::len).collect();
    for (place, others) in before.iter().enumerate() {
        for other in others {
            after[*other].push(place);
        }
    }
    let free = (0..before.len()).filter(|place| waiting[*place] == 0);
    let mut free: BinaryHeap<Reverse<usize>> = free.map(Reverse).collect();
    let mut order = Vec::with_capacity(before.len());
    while let Some(Reverse(place)) = free.pop() {
        order.push(place);
        for next in &after[place] {
            waiting[*next] -= 1;
            if waiting[*next] == 0 {
                free.push(Reverse(*next));
            }
        }
    }
    match waiting.iter().position(|count| *count > 0) {
        None => Ok(order),
        Some(place) => Err(BrokenPlan(format!(
            "{} waits for itself",
            plan.tasks[place].id()
        ))),
    }
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
    fn tasks_keep_the_order_of_the_plan() {
        let on = |name: &str, host: &str| Task::new("m", name, &host.parse().unwrap());
        let (first, second) = (on("a", "node2"), on("a", "node1"));
        let waiting = on("b", "node2").after([first.id(), second.id()]);
        let last = on("b", "node1");
        let graph = Graph::of(&Plan {
            tasks: vec![first, second, waiting, last],
        })
        .unwrap();
        assert_eq!(graph.order, [0, 1, 2, 3]);
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
