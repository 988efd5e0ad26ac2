//! A plan for people, and for programs.

use std::fmt::Write;

use super::graph::{BrokenPlan, Graph};
use super::task::Plan;
use kubexm_types::event::{Event, Events};

/// Tells each task, in an order in which they can run.
pub fn emit(plan: &Plan, events: &Events) -> Result<(), BrokenPlan> {
    for &place in &Graph::of(plan)?.order {
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

/// The whole plan in an order in which it can run; each task with its steps.
pub fn show(plan: &Plan) -> Result<String, BrokenPlan> {
    let graph = Graph::of(plan)?;
    let mut text = String::new();
    for &place in &graph.order {
        let task = &plan.tasks[place];
        let _ = writeln!(text, "{}: {} / {}", task.host, task.module, task.name);
        let mut after: Vec<String> = graph.before[place]
            .iter()
            .map(|other| plan.tasks[*other].id().to_string())
            .collect();
        after.sort();
        after.dedup();
        if !after.is_empty() {
            let _ = writeln!(text, "    after {}", after.join(", "));
        }
        for step in &task.steps {
            let _ = writeln!(text, "  - {}", step.describe());
        }
    }
    let hosts: std::collections::BTreeSet<_> = plan.tasks.iter().map(|task| &task.host).collect();
    let steps: usize = plan.tasks.iter().map(|task| task.steps.len()).sum();
    let _ = writeln!(
        text,
        "{} tasks with {steps} steps on {} hosts",
        plan.tasks.len(),
        hosts.len()
    );
    Ok(text)
}
