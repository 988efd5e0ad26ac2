//! The part of a plan that hosts need.

use std::collections::BTreeSet;

use kubexm_engine::plan::{Check, Plan, Step, Task, TaskId};
use kubexm_session::CommandError;
use kubexm_session::session::Hosts;

/// Returns the tasks with the steps that a host needs, one after another.
pub(super) async fn needed(hosts: &Hosts, plan: Plan) -> Result<Vec<Task>, CommandError> {
    let mut tasks: Vec<Task> = Vec::new();
    for mut task in with_needed_steps(hosts, plan).await? {
        task.after = tasks.last().map(Task::id).into_iter().collect();
        if !task.steps.is_empty() {
            tasks.push(task);
        }
    }
    Ok(tasks)
}

/// Returns the tasks of hosts that answer, with the steps that they need. Tasks without such a step stay, because others wait for
/// them.
pub(super) async fn with_needed_steps(
    hosts: &Hosts,
    plan: Plan,
) -> Result<Vec<Task>, CommandError> {
    let mut tasks: Vec<Task> = Vec::new();
    for mut task in plan.tasks {
        let Some(host) = hosts.get(&task.host) else {
            continue;
        };
        let mut steps = Vec::new();
        for step in std::mem::take(&mut task.steps) {
            let is_satisfied = match &step {
                Step::Ensure(ensure) => ensure.check(host.as_ref()).await,
                Step::Action(_) | Step::Wait(_) => Ok(Check::Satisfied),
            };
            match is_satisfied? {
                Check::Satisfied => {}
                Check::Needed { .. } | Check::Reported(_) => steps.push(step),
            }
        }
        task.steps = steps;
        tasks.push(task);
    }
    let ids: BTreeSet<TaskId> = tasks.iter().map(Task::id).collect();
    for task in &mut tasks {
        task.after.retain(|id| ids.contains(id));
        task.after_end.retain(|id| ids.contains(id));
    }
    Ok(tasks)
}
