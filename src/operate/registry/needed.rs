//! The part of a plan that hosts need.

use std::collections::BTreeSet;

use kubexm_engine::plan::{Check, Plan, Step, Task, TaskId};
use kubexm_session::CommandError;
use kubexm_session::session::Hosts;

/// A task with the steps that its host needs.
pub(super) struct NeededTask {
    pub(super) task: Task,
    /// A line for each step, for the user: what it does and why, or why it is not applied.
    pub(super) lines: Vec<String>,
}

/// Returns the tasks with the steps that a host needs, one after another.
pub(super) async fn needed(hosts: &Hosts, plan: Plan) -> Result<Vec<Task>, CommandError> {
    let mut tasks: Vec<Task> = Vec::new();
    for NeededTask { mut task, .. } in with_needed_steps(hosts, plan).await? {
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
) -> Result<Vec<NeededTask>, CommandError> {
    let mut tasks: Vec<NeededTask> = Vec::new();
    for mut task in plan.tasks {
        let Some(host) = hosts.get(&task.host) else {
            continue;
        };
        let (mut steps, mut lines) = (Vec::new(), Vec::new());
        for step in std::mem::take(&mut task.steps) {
            let check = match &step {
                Step::Ensure(ensure) => ensure.check(host.as_ref()).await,
                Step::Action(_) | Step::Wait(_) => Ok(Check::Satisfied),
            };
            if let Some(line) = line(&step, check?) {
                lines.push(line);
                steps.push(step);
            }
        }
        task.steps = steps;
        tasks.push(NeededTask { task, lines });
    }
    let ids: BTreeSet<TaskId> = tasks.iter().map(|one| one.task.id()).collect();
    for NeededTask { task, .. } in &mut tasks {
        task.after.retain(|id| ids.contains(id));
        task.after_end.retain(|id| ids.contains(id));
    }
    Ok(tasks)
}

/// Returns what a step does and why, or why it is not applied; `None` if the host does not need it.
fn line(step: &Step, check: Check) -> Option<String> {
    match check {
        Check::Satisfied => None,
        Check::Reported(message) => Some(format!("not applied: {}", message.text)),
        // The others are lines of files.
        Check::Needed {
            reason,
            shows_lines: false,
        } if !reason.trim().is_empty() && reason.trim().lines().count() == 1 => {
            Some(format!("{}: {}", step.describe(), reason.trim()))
        }
        Check::Needed { .. } => Some(step.describe()),
    }
}
