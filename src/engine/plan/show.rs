//! Shows a plan as text and as events.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::graph::{Graph, InvalidPlan};
use super::task::Plan;
use kubexm_types::event::{Event, Events};

/// Emits an event for each task, in an order in which they can run.
///
/// # Errors
/// The plan is invalid.
pub fn emit(plan: &Plan, events: &Events) -> Result<(), InvalidPlan> {
    for &place in &Graph::new(plan)?.order {
        let task = &plan.tasks[place];
        events.emit(Event::Planned {
            host: task.host.clone(),
            module: task.module.clone(),
            task: task.name.clone(),
            steps: task.steps.iter().map(|step| step.describe()).collect(),
        });
    }
    Ok(())
}

/// Returns the plan as text: each task with its steps, in an order in which they can run.
///
/// # Errors
/// The plan is invalid.
pub fn as_text(plan: &Plan) -> Result<String, InvalidPlan> {
    let graph = Graph::new(plan)?;
    let mut text = String::new();
    for &place in &graph.order {
        let task = &plan.tasks[place];
        let _ = writeln!(text, "{}: {} / {}", task.host, task.module, task.name);
        for (word, before) in [
            ("after", &graph.before),
            ("after end of", &graph.before_end),
        ] {
            let ids = before[place].iter().map(|other| plan.tasks[*other].id());
            let ids: BTreeSet<String> = ids.map(|id| id.to_string()).collect();
            if !ids.is_empty() {
                let ids: Vec<String> = ids.into_iter().collect();
                let _ = writeln!(text, "    {word} {}", ids.join(", "));
            }
        }
        for step in &task.steps {
            let _ = writeln!(text, "  - {}", step.describe());
        }
    }
    let hosts: BTreeSet<_> = plan.tasks.iter().map(|task| &task.host).collect();
    let steps: usize = plan.tasks.iter().map(|task| task.steps.len()).sum();
    let _ = writeln!(
        text,
        "{} tasks with {steps} steps on {} hosts",
        plan.tasks.len(),
        hosts.len()
    );
    Ok(text)
}
