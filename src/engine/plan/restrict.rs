//! The part of a plan that removes differences of hosts (`status --fix`).

use std::collections::BTreeSet;

use super::graph::{Graph, InvalidPlan};
use super::step::Step;
use super::task::{Plan, Task, TaskId};
use kubexm_types::HostName;

/// Steps of a plan, each by its task and its id.
pub type Steps = BTreeSet<(TaskId, String)>;

/// Returns the part of a plan that applies steps, in the order of the plan.
///
/// On the hosts of these steps, all other states and conditions stay in the plan: a unit restarts after its file was
/// written, and a host is healthy before the next one changes. Their checks find nothing else to do. Actions that provide a
/// value stay if a task of the steps requires the value, or has a state after the action. `excluded` steps leave the plan.
///
/// # Errors
/// The plan is not consistent.
pub fn restrict(plan: Plan, steps: &Steps, excluded: &Steps) -> Result<Plan, InvalidPlan> {
    let edges = Edges(Graph::new(&plan)?);
    let has_steps = |task: &Task| {
        let mut ids = task.steps.iter().map(Step::id);
        ids.any(|id| steps.contains(&(task.id(), id)))
    };
    let chosen = plan.tasks.iter().filter(|task| has_steps(task));
    let hosts: BTreeSet<HostName> = chosen.clone().map(|task| task.host.clone()).collect();
    let chosen: BTreeSet<TaskId> = chosen.map(Task::id).collect();
    let values = edges.values(&plan, chosen.clone());
    let mut tasks = plan.tasks;
    for task in &mut tasks {
        let (id, is_on) = (task.id(), hosts.contains(&task.host));
        let is_applied = |step: &Step| {
            matches!(step, Step::Ensure(_)) && !excluded.contains(&(id.clone(), step.id()))
        };
        // A later step of the same task can read a value that no task requires.
        let mut later = if chosen.contains(&id) {
            task.steps.iter().filter(|step| is_applied(step)).count()
        } else {
            0
        };
        task.steps.retain(|step| match step {
            Step::Action(action) => {
                let is_read = |name: &&str| later > 0 || values.contains(name);
                action.provides().iter().any(is_read)
            }
            Step::Ensure(_) => {
                let is_kept = is_on && is_applied(step);
                later = later.saturating_sub(usize::from(is_kept));
                is_kept
            }
            Step::Wait(_) => is_on,
        });
        task.provides = task.steps.iter().flat_map(Step::provides).collect();
    }
    let provided: BTreeSet<&str> = tasks
        .iter()
        .flat_map(|task| task.provides.clone())
        .collect();
    let kept: Vec<bool> = tasks.iter().map(|task| !task.steps.is_empty()).collect();
    let before = edges.without(&tasks, &kept);
    let restricted = tasks.into_iter().zip(before).zip(kept);
    let restricted = restricted.filter(|(_, is_kept)| *is_kept);
    let restricted = restricted.map(|((mut task, before), _)| {
        task.after = before.success.into_iter().collect();
        task.after_end = before.end.into_iter().collect();
        task.requires.retain(|name| provided.contains(name));
        task
    });
    Ok(Plan {
        tasks: restricted.collect(),
    })
}

/// The tasks that must have succeeded, or ended, before another one.
#[derive(Default, Clone)]
struct Before {
    success: BTreeSet<TaskId>,
    end: BTreeSet<TaskId>,
}

/// The edges of a plan.
struct Edges(Graph);

impl Edges {
    /// Returns the values that tasks require, and that the tasks which provide them require.
    fn values(&self, plan: &Plan, mut tasks: BTreeSet<TaskId>) -> BTreeSet<&'static str> {
        let mut values = BTreeSet::new();
        for &place in self.0.order.iter().rev() {
            let task = &plan.tasks[place];
            if task.provides.iter().any(|name| values.contains(name)) {
                tasks.insert(task.id());
            }
            if tasks.contains(&task.id()) {
                values.extend(task.requires.iter().copied());
            }
        }
        values
    }

    /// Returns what each task waits for, if the plan has only some of its tasks: a task waits for what those waited for
    /// that the plan does not have.
    fn without(&self, tasks: &[Task], kept: &[bool]) -> Vec<Before> {
        let mut found = vec![Before::default(); tasks.len()];
        for &place in &self.0.order {
            let mut before = Before::default();
            for &other in &self.0.before[place] {
                if kept[other] {
                    before.success.insert(tasks[other].id());
                } else {
                    before.success.extend(found[other].success.iter().cloned());
                    before.end.extend(found[other].end.iter().cloned());
                }
            }
            for &other in &self.0.before_end[place] {
                if kept[other] {
                    before.end.insert(tasks[other].id());
                } else {
                    before.end.extend(found[other].success.iter().cloned());
                    before.end.extend(found[other].end.iter().cloned());
                }
            }
            found[place] = before;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use kubexm_host::Host;

    use super::*;
    use crate::plan::{About, Action, Describe, StepError};
    use crate::steps::{ManagedBlock, RunScript, WaitFor};
    use kubexm_scripts::systemd::JOURNAL;
    use kubexm_types::HostPath;

    fn file(path: &str) -> ManagedBlock {
        ManagedBlock {
            path: HostPath::parse(path).unwrap(),
            lines: Vec::new(),
        }
    }

    fn wait(title: &str) -> WaitFor {
        WaitFor {
            title: title.to_owned(),
            script: JOURNAL,
            arguments: Vec::new(),
            at_most: std::time::Duration::ZERO,
            diagnosis: JOURNAL.with([""; 0]),
            about: About::Other,
        }
    }

    struct Mint(&'static str);

    impl Describe for Mint {
        fn id(&self) -> String {
            format!("mint {}", self.0)
        }

        fn describe(&self) -> String {
            self.id()
        }
    }

    #[async_trait]
    impl Action for Mint {
        async fn run(&self, _: &dyn Host) -> Result<(), StepError> {
            Ok(())
        }

        fn provides(&self) -> Vec<&'static str> {
            vec![self.0]
        }
    }

    fn mint(value: &'static str) -> Step {
        Step::Action(Box::new(Mint(value)))
    }

    fn task(name: &str, host: &str) -> Task {
        Task::new("m", name, &host.parse().unwrap())
    }

    fn shown(plan: &Plan) -> String {
        crate::plan::show::as_text(plan).unwrap()
    }

    #[test]
    fn hosts_stay_in_order_without_the_tasks_between_them() {
        let of = |host: &str, before: &[&str]| {
            let before = before
                .iter()
                .map(|host| TaskId(format!("m/settings@{host}")));
            let task = task("settings", host).after(before);
            task.step(file("/etc/a"))
                .step(wait("Wait until it answers"))
        };
        let plan = Plan {
            tasks: vec![
                of("node1", &[]),
                of("node2", &["node1"]),
                of("node3", &["node2"]),
                task("last", "node3")
                    .after_end([TaskId("m/settings@node2".to_owned())])
                    .step(file("/etc/b")),
            ],
        };
        let on = |host: &str| {
            (
                TaskId(format!("m/settings@{host}")),
                "block /etc/a".to_owned(),
            )
        };
        let steps = Steps::from([on("node1"), on("node3")]);
        let excluded =
            Steps::from([(TaskId("m/last@node3".to_owned()), "block /etc/x".to_owned())]);
        insta::assert_snapshot!(shown(&restrict(plan, &steps, &excluded).unwrap()), @"
        node1: m / settings
          - Add 0 names to /etc/a
          - Wait until it answers
        node3: m / settings
            after m/settings@node1
          - Add 0 names to /etc/a
          - Wait until it answers
        node3: m / last
            after end of m/settings@node1
          - Add 0 names to /etc/b
        3 tasks with 5 steps on 2 hosts
        ");
    }

    #[test]
    fn value_that_a_later_step_of_the_same_task_can_read_stays() {
        let plan = Plan {
            tasks: vec![
                task("serve", "node1")
                    .step(mint("interface"))
                    .step(file("/etc/a"))
                    .step(mint("token")),
                task("other", "node1").step(mint("unread")),
            ],
        };
        let id = TaskId("m/serve@node1".to_owned());
        let steps = Steps::from([(id, "block /etc/a".to_owned())]);
        let restricted = restrict(plan, &steps, &Steps::new()).unwrap();
        insta::assert_snapshot!(shown(&restricted), @"
        node1: m / serve
          - mint interface
          - Add 0 names to /etc/a
        1 tasks with 2 steps on 1 hosts
        ");
    }

    #[test]
    fn excluded_steps_and_actions_without_a_reader_leave_the_plan() {
        let script = |id: &str| RunScript::new(id, id, "exit 0", "exit 0");
        let mut reader = task("reader", "node2")
            .step(file("/etc/a"))
            .step(script("report"));
        reader.requires.push("token");
        let plan = Plan {
            tasks: vec![
                task("mint", "node1")
                    .step(file("/etc/a"))
                    .step(mint("token"))
                    .step(mint("other")),
                task("fetch", "node2")
                    .step(mint("kubeconfig"))
                    .step(script("other")),
                reader,
            ],
        };
        let id = |name: &str| (TaskId("m/reader@node2".to_owned()), name.to_owned());
        let (steps, excluded) = (
            Steps::from([id("block /etc/a")]),
            Steps::from([id("report")]),
        );
        insta::assert_snapshot!(shown(&restrict(plan, &steps, &excluded).unwrap()), @"
        node1: m / mint
          - mint token
        node2: m / fetch
          - other
        node2: m / reader
            after m/mint@node1
          - Add 0 names to /etc/a
        3 tasks with 3 steps on 2 hosts
        ");
    }
}
