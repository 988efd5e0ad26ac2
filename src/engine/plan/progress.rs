//! Tracks which tasks of a run are done, and why the others are not.

use std::collections::BTreeMap;
use std::fmt;

use super::graph::Graph;
use super::step::StepError;
use super::task::{Plan, Task, TaskId};

/// The result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of steps that changed a host.
    pub changed: usize,
    /// Number of steps that found the desired state.
    pub unchanged: usize,
    /// Number of actions that ran.
    pub ran: usize,
    /// Tasks that failed, with the step and its error.
    pub failed: Vec<(TaskId, String, StepError)>,
    /// Tasks that did not start or did not end, with the reason, in the order of the plan.
    pub skipped: Vec<(TaskId, SkipReason)>,
    /// Whether the user stopped the run.
    pub interrupted: bool,
}

/// Why a task was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// It requires this task, which failed or lost its host.
    Requires(TaskId),
    /// The user stopped the run before the task started.
    Stopped,
    /// The user stopped the run before this step, or while its condition did not hold.
    StoppedBefore(String),
    /// The connection to its host was lost.
    WithoutHost,
    /// It did not end in time after a stop. Its command may still run there.
    LeftRunning,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requires(task) => write!(f, "it requires {task}, which was not done"),
            Self::Stopped => f.write_str("the run was stopped"),
            Self::StoppedBefore(step) => write!(f, "the run was stopped before: {step}"),
            Self::WithoutHost => f.write_str("its host does not answer any more"),
            Self::LeftRunning => {
                f.write_str("it did not end in time and may still run on its host")
            }
        }
    }
}

/// The result of one task.
#[derive(Default)]
pub(super) struct TaskResult {
    pub(super) changed: usize,
    pub(super) unchanged: usize,
    pub(super) ran: usize,
    pub(super) end: TaskEnd,
}

#[derive(Default)]
pub(super) enum TaskEnd {
    #[default]
    Done,
    Failed(String, StepError),
    StoppedBefore(String),
    /// The task did not start, because its host was lost.
    WithoutHost,
}

/// The state of all tasks of a run.
pub(super) struct Progress {
    graph: Graph,
    ids: Vec<TaskId>,
    waiting: Vec<Option<Task>>,
    done: Vec<bool>,
    /// Tasks that started and did not succeed.
    failed: Vec<bool>,
    /// Tasks that were ready or started and did not end.
    unfinished: BTreeMap<usize, SkipReason>,
    outcome: Outcome,
}

impl Progress {
    pub(super) fn new(plan: Plan, graph: Graph) -> Self {
        Self {
            graph,
            ids: plan.tasks.iter().map(Task::id).collect(),
            done: vec![false; plan.tasks.len()],
            failed: vec![false; plan.tasks.len()],
            waiting: plan.tasks.into_iter().map(Some).collect(),
            unfinished: BTreeMap::new(),
            outcome: Outcome::default(),
        }
    }

    /// Removes and returns the tasks whose predecessors are all done or have ended, as each requires.
    pub(super) fn take_ready(&mut self) -> Vec<(usize, Task)> {
        let ended = self.ended();
        let (graph, done, waiting) = (&self.graph, &self.done, &mut self.waiting);
        let places = graph.order.iter();
        places
            .filter(|place| graph.before[**place].iter().all(|other| done[*other]))
            .filter(|place| graph.before_end[**place].iter().all(|other| ended[*other]))
            .filter_map(|place| Some((*place, waiting[*place].take()?)))
            .collect()
    }

    /// Returns which tasks have succeeded, have failed, or cannot start because a task that they require has
    /// failed.
    fn ended(&self) -> Vec<bool> {
        let mut lost = self.failed.clone();
        for &place in &self.graph.order {
            let mut before = self.graph.before[place].iter();
            lost[place] = lost[place] || before.any(|other| lost[*other]);
        }
        let pairs = self.done.iter().zip(lost);
        pairs.map(|(done, lost)| *done || lost).collect()
    }

    /// Records the result of a task.
    pub(super) fn record(&mut self, place: usize, result: TaskResult) {
        self.outcome.changed += result.changed;
        self.outcome.unchanged += result.unchanged;
        self.outcome.ran += result.ran;
        self.failed[place] = !matches!(result.end, TaskEnd::Done);
        match result.end {
            TaskEnd::Done => self.done[place] = true,
            TaskEnd::Failed(step, error) => {
                let id = self.ids[place].clone();
                self.outcome.failed.push((id, step, error));
            }
            TaskEnd::StoppedBefore(step) => {
                self.unfinished
                    .insert(place, SkipReason::StoppedBefore(step));
            }
            TaskEnd::WithoutHost => {
                self.unfinished.insert(place, SkipReason::WithoutHost);
            }
        }
    }

    /// Returns the outcome, with a reason for each task that was not done.
    pub(super) fn outcome(mut self, stopped: bool, abandoned: Vec<usize>) -> Outcome {
        let abandoned = abandoned
            .into_iter()
            .map(|place| (place, SkipReason::LeftRunning));
        self.unfinished.extend(abandoned);
        let failed: Vec<&TaskId> = self.outcome.failed.iter().map(|(id, _, _)| id).collect();
        let is_root = |place: usize| match self.unfinished.get(&place) {
            Some(SkipReason::WithoutHost) => true,
            Some(SkipReason::LeftRunning) => !stopped,
            _ => failed.contains(&&self.ids[place]),
        };
        let mut roots: Vec<Option<TaskId>> = vec![None; self.ids.len()];
        for &place in &self.graph.order {
            let before = self.graph.before[place].iter();
            roots[place] = if is_root(place) {
                Some(self.ids[place].clone())
            } else {
                before.flat_map(|other| roots[*other].clone()).next()
            };
        }
        for (place, id) in self.ids.iter().enumerate() {
            let why = match (
                self.unfinished.remove(&place),
                &self.waiting[place],
                &roots[place],
            ) {
                (Some(left), _, _) => left,
                (None, Some(_), Some(root)) => SkipReason::Requires(root.clone()),
                (None, Some(_), None) => SkipReason::Stopped,
                (None, None, _) => continue,
            };
            self.outcome.skipped.push((id.clone(), why));
        }
        self.outcome.interrupted = stopped;
        self.outcome
    }
}
