//! Sorts the tasks of a plan into an order in which they can run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::task::{Plan, Task, TaskId};

/// A plan that cannot run. This is always a defect of kubexm.
#[derive(Debug, thiserror::Error)]
#[error("invalid plan: {0}")]
pub struct InvalidPlan(String);

/// The dependencies between the tasks of a plan. A task is identified by its index in the plan.
pub struct Graph {
    /// For each task, the tasks that must succeed before it.
    pub before: Vec<Vec<usize>>,
    /// For each task, the tasks that must have ended before it, whether they succeeded or not.
    pub before_end: Vec<Vec<usize>>,
    /// All tasks in an order in which each comes after its predecessors.
    pub order: Vec<usize>,
}

impl Graph {
    /// Builds the graph of a plan.
    ///
    /// # Errors
    /// A task exists twice, waits for an unknown task or for itself, or requires a value that no task
    /// provides.
    pub fn new(plan: &Plan) -> Result<Self, InvalidPlan> {
        let mut places: BTreeMap<TaskId, usize> = BTreeMap::new();
        let mut providers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, task) in plan.tasks.iter().enumerate() {
            if places.insert(task.id(), place).is_some() {
                return Err(InvalidPlan(format!(
                    "the plan contains the task {} twice",
                    task.id()
                )));
            }
            for value in &task.provides {
                providers.entry(value).or_default().push(place);
            }
        }
        let place_of = |task: &Task, id: &TaskId| {
            places.get(id).copied().ok_or_else(|| {
                let task = task.id();
                InvalidPlan(format!("{task} waits for {id}, which is not in the plan"))
            })
        };
        let mut before = vec![Vec::new(); plan.tasks.len()];
        let mut before_end = vec![Vec::new(); plan.tasks.len()];
        for (place, task) in plan.tasks.iter().enumerate() {
            for id in &task.after {
                before[place].push(place_of(task, id)?);
            }
            for id in &task.after_end {
                before_end[place].push(place_of(task, id)?);
            }
            for value in &task.requires {
                let others = providers.get(value).ok_or_else(|| {
                    InvalidPlan(format!(
                        "{} requires '{value}', which no task provides",
                        task.id()
                    ))
                })?;
                before[place].extend(others);
            }
        }
        let pairs = before.iter().zip(&before_end);
        let both: Vec<Vec<usize>> = pairs.map(|(a, b)| [&a[..], &b[..]].concat()).collect();
        let order = sorted(plan, &both)?;
        Ok(Self {
            before,
            before_end,
            order,
        })
    }
}

/// Sorts the tasks topologically. Among the tasks that can run, the first in the plan comes first, so that hosts
/// appear in the order of the cluster file.
fn sorted(plan: &Plan, before: &[Vec<usize>]) -> Result<Vec<usize>, InvalidPlan> {
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
        Some(place) => Err(InvalidPlan(format!(
            "{} waits for itself",
            plan.tasks[place].id()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str) -> Task {
        Task::new("m", name, &"node1".parse().unwrap())
    }

    #[test]
    fn values_and_predecessors_make_edges() {
        let mut provider = task("provider");
        provider.provides.push("secret");
        let mut consumer = task("consumer");
        consumer.requires.push("secret");
        let last = task("last").after([consumer.id()]);
        let graph = Graph::new(&Plan {
            tasks: vec![last, consumer, provider],
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
        let graph = Graph::new(&Plan {
            tasks: vec![first, second, waiting, last],
        })
        .unwrap();
        assert_eq!(graph.order, [0, 1, 2, 3]);
    }

    #[test]
    fn invalid_plans_are_refused() {
        let mut consumer = task("consumer");
        consumer.requires.push("secret");
        let cycle = task("a").after([TaskId("m/a@node1".into())]);
        let unknown = task("b").after([TaskId("m/none@node1".into())]);
        for tasks in [
            vec![consumer],
            vec![cycle],
            vec![unknown],
            vec![task("x"), task("x")],
        ] {
            assert!(Graph::new(&Plan { tasks }).is_err());
        }
    }
}
