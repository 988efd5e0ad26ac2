//! Which tasks of a run are done, and what became of the others.

use std::collections::BTreeMap;
use std::fmt;

use super::graph::Graph;
use super::step::StepError;
use super::task::{Plan, Task, TaskId};

/// What became of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Steps that changed a host.
    pub changed: usize,
    /// Steps that found the desired state.
    pub unchanged: usize,
    /// Actions that ran.
    pub ran: usize,
    /// Tasks that failed: task, step, why.
    pub failed: Vec<(TaskId, String, StepError)>,
    /// Tasks that were not begun, or not brought to their end, and why; in the plan's order.
    pub skipped: Vec<(TaskId, Skip)>,
    /// Whether the user stopped the run.
    pub interrupted: bool,
}

/// Why a task was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    /// It needs what this task should have done, which failed or lost its host.
    Needs(TaskId),
    /// The user stopped the run before it began.
    Stopped,
    /// The user stopped the run before this step, or while its condition did not hold.
    StoppedBefore(String),
    /// Its host no longer answers.
    WithoutHost,
    /// It did not end in time after a stop or the loss of a host; what it started may go on.
    LeftRunning,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needs(task) => write!(f, "it needs {task}, which was not done"),
            Self::Stopped => f.write_str("the run was stopped"),
            Self::StoppedBefore(step) => write!(f, "the run was stopped before: {step}"),
            Self::WithoutHost => f.write_str("its host no longer answers"),
            Self::LeftRunning => f.write_str("it did not end in time; it may still run there"),
        }
    }
}

/// How one task went.
#[derive(Default)]
pub(super) struct TaskResult {
    pub(super) changed: usize,
    pub(super) unchanged: usize,
    pub(super) ran: usize,
    pub(super) end: End,
}

#[derive(Default)]
pub(super) enum End {
    #[default]
    Done,
    Failed(String, StepError),
    StoppedBefore(String),
    /// It was not begun, since its host was lost.
    WithoutHost,
}

impl TaskResult {
    /// Whether the connection broke under it.
    pub(super) fn lost_its_host(&self) -> bool {
        matches!(&self.end, End::Failed(_, error) if error.is_loss_of_host())
    }
}

/// Which tasks of a plan are done, and what became of the others.
pub(super) struct Progress {
    graph: Graph,
    ids: Vec<TaskId>,
    waiting: Vec<Option<Task>>,
    done: Vec<bool>,
    /// Those that were begun, or ready, and not brought to their end.
    left: BTreeMap<usize, Skip>,
    outcome: Outcome,
}

impl Progress {
    pub(super) fn new(plan: Plan, graph: Graph) -> Self {
        Self {
            graph,
            ids: plan.tasks.iter().map(Task::id).collect(),
            done: vec![false; plan.tasks.len()],
            waiting: plan.tasks.into_iter().map(Some).collect(),
            left: BTreeMap::new(),
            outcome: Outcome::default(),
        }
    }

    /// Takes the tasks whose predecessors are all done.
    pub(super) fn ready(&mut self) -> Vec<(usize, Task)> {
        let (graph, done, waiting) = (&self.graph, &self.done, &mut self.waiting);
        let places = graph.order.iter();
        places
            .filter(|place| graph.before[**place].iter().all(|other| done[*other]))
            .filter_map(|place| Some((*place, waiting[*place].take()?)))
            .collect()
    }

    pub(super) fn ended(&mut self, place: usize, result: TaskResult) {
        self.outcome.changed += result.changed;
        self.outcome.unchanged += result.unchanged;
        self.outcome.ran += result.ran;
        match result.end {
            End::Done => self.done[place] = true,
            End::Failed(step, error) => {
                let id = self.ids[place].clone();
                self.outcome.failed.push((id, step, error));
            }
            End::StoppedBefore(step) => {
                self.left.insert(place, Skip::StoppedBefore(step));
            }
            End::WithoutHost => {
                self.left.insert(place, Skip::WithoutHost);
            }
        }
    }

    /// The outcome, with a reason for each task that was not done.
    pub(super) fn outcome(mut self, stopped: bool, abandoned: Vec<usize>) -> Outcome {
        let abandoned = abandoned
            .into_iter()
            .map(|place| (place, Skip::LeftRunning));
        self.left.extend(abandoned);
        let failed: Vec<&TaskId> = self.outcome.failed.iter().map(|(id, _, _)| id).collect();
        let is_root = |place: usize| match self.left.get(&place) {
            Some(Skip::WithoutHost) => true,
            Some(Skip::LeftRunning) => !stopped,
            _ => failed.contains(&&self.ids[place]),
        };
        let mut roots: Vec<Option<TaskId>> = vec![None; self.ids.len()];
        for &place in &self.graph.order {
            let before = self.graph.before[place].iter();
            roots[place] = match is_root(place) {
                true => Some(self.ids[place].clone()),
                false => before.flat_map(|other| roots[*other].clone()).next(),
            };
        }
        for (place, id) in self.ids.iter().enumerate() {
            let why = match (
                self.left.remove(&place),
                &self.waiting[place],
                &roots[place],
            ) {
                (Some(left), _, _) => left,
                (None, Some(_), Some(root)) => Skip::Needs(root.clone()),
                (None, Some(_), None) => Skip::Stopped,
                (None, None, _) => continue,
            };
            self.outcome.skipped.push((id.clone(), why));
        }
        self.outcome.interrupted = stopped;
        self.outcome
    }
}
