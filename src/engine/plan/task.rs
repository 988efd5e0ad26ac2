//! Tasks, and the plan that they form.

use std::fmt;

use serde::Serialize;

use kubexm_types::HostName;

use super::step::Step;

/// Identifies a task of a plan: `module/task@host`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TaskId(pub String);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a task in every plan: its module, and its name within the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskName {
    module: &'static str,
    name: &'static str,
}

impl TaskName {
    /// Creates a name. Each module keeps its names in constants.
    pub const fn new(module: &'static str, name: &'static str) -> Self {
        Self { module, name }
    }

    /// Returns the id of the task of this name on a host.
    pub fn id(self, host: &HostName) -> TaskId {
        TaskId(format!("{}/{}@{host}", self.module, self.name))
    }

    /// Creates the task of this name on a host, without steps.
    pub fn task(self, host: &HostName) -> Task {
        Task::new(self.module, self.name, host)
    }
}

/// Steps that run one after another on one host.
pub struct Task {
    pub module: String,
    /// The name within the module.
    pub name: String,
    pub host: HostName,
    /// Tasks that must succeed first.
    pub after: Vec<TaskId>,
    /// Tasks that must have ended first, whether they succeeded or not. A task that cannot start any more has ended.
    pub after_end: Vec<TaskId>,
    /// Names of the [values](super::TaskValue) that it reads.
    pub requires: Vec<&'static str>,
    /// Names of the [values](super::TaskValue) that its actions set.
    pub provides: Vec<&'static str>,
    /// The steps, in the order in which they run.
    pub steps: Vec<Step>,
}

impl Task {
    /// Creates a task without steps.
    pub fn new(module: &str, name: &str, host: &HostName) -> Self {
        Self {
            module: module.to_owned(),
            name: name.to_owned(),
            host: host.clone(),
            after: Vec::new(),
            after_end: Vec::new(),
            requires: Vec::new(),
            provides: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Returns `module/name@host`.
    pub fn id(&self) -> TaskId {
        TaskId(format!("{}/{}@{}", self.module, self.name, self.host))
    }

    /// Adds a step. The task provides what the step provides.
    #[must_use]
    pub fn step(mut self, step: impl Into<Step>) -> Self {
        let step = step.into();
        self.provides.extend(step.provides());
        self.steps.push(step);
        self
    }

    /// Adds tasks that must succeed first.
    #[must_use]
    pub fn after(mut self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        self.after.extend(tasks);
        self
    }

    /// Adds tasks that must have ended first, whether they succeeded or not.
    #[must_use]
    pub fn after_end(mut self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        self.after_end.extend(tasks);
        self
    }
}

/// All tasks of a run, in the order in which they were planned.
#[derive(Default)]
pub struct Plan {
    pub tasks: Vec<Task>,
}
