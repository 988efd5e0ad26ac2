//! Runs a plan: each task as soon as its predecessors are done, one task a host at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

use super::graph::{BrokenPlan, Graph};
use super::receipt::Receipt;
use super::step::{Check, Step, StepContext, StepError};
use super::task::{Plan, Task, TaskId};
use crate::event::{Event, Events, StepState};
use crate::host::Host;
use crate::spec::HostName;

/// So many hosts are worked on at once: each may be unpacking the bundle on a thread of its own.
pub const AT_ONCE: usize = 32;

/// What became of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Steps that changed a host.
    pub changed: usize,
    /// Steps that found the host as wanted.
    pub unchanged: usize,
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
    /// It needs what this task should have done, which failed.
    Needs(TaskId),
    /// The user stopped the run before it began.
    Stopped,
    /// The user stopped the run before this step of it.
    StoppedBefore(String),
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needs(task) => write!(f, "it needs {task}, which failed"),
            Self::Stopped => f.write_str("the run was stopped"),
            Self::StoppedBefore(step) => write!(f, "the run was stopped before: {step}"),
        }
    }
}

/// A flag by which a run is asked to stop after the steps that are running.
pub type Stop = Arc<AtomicBool>;

#[derive(Default)]
struct TaskResult {
    changed: usize,
    unchanged: usize,
    end: End,
}

#[derive(Default)]
enum End {
    #[default]
    Done,
    Failed(String, StepError),
    StoppedBefore(String),
}

/// One host with what the executor keeps for it.
struct Site {
    host: Arc<dyn Host>,
    receipt: Receipt,
    turn: Mutex<()>,
}

impl Site {
    fn of(host: &Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self {
            host: Arc::clone(host),
            receipt: Receipt::of(Arc::clone(host)),
            turn: Mutex::new(()),
        })
    }
}

/// What all tasks of a run share.
struct Run {
    sites: BTreeMap<HostName, Arc<Site>>,
    room: Semaphore,
    events: Events,
    stop: Stop,
}

/// Runs all tasks of a plan.
///
/// # Errors
/// The plan does not hold together; what fails on hosts is in the outcome.
pub async fn execute(
    plan: Plan,
    hosts: &BTreeMap<HostName, Arc<dyn Host>>,
    events: &Events,
    stop: &Stop,
) -> Result<Outcome, BrokenPlan> {
    let graph = Graph::of(&plan)?;
    let sites = hosts.iter();
    let run = Arc::new(Run {
        sites: sites
            .map(|(name, host)| (name.clone(), Site::of(host)))
            .collect(),
        room: Semaphore::new(AT_ONCE),
        events: events.clone(),
        stop: Arc::clone(stop),
    });
    let mut progress = Progress::new(plan, graph);
    let mut running = JoinSet::new();
    let mut places = BTreeMap::new();
    loop {
        if !stop.load(Ordering::Relaxed) {
            for (place, task) in progress.ready() {
                let handle = running.spawn(Arc::clone(&run).task(task));
                places.insert(handle.id(), place);
            }
        }
        let Some(finished) = running.join_next_with_id().await else {
            break;
        };
        let (id, result) = match finished {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), broken_off(&error)),
        };
        if let Some(place) = places.remove(&id) {
            progress.ended(place, result);
        }
    }
    let outcome = progress.outcome(stop.load(Ordering::Relaxed));
    for (task, why) in &outcome.skipped {
        events.note(format!("not done: {task}: {why}"));
    }
    Ok(outcome)
}

/// What a task leaves that panicked.
fn broken_off(error: &tokio::task::JoinError) -> TaskResult {
    let words = format!("it broke off, which is a defect of kubexm: {error}");
    TaskResult {
        end: End::Failed("unknown step".to_owned(), StepError::Other(words)),
        ..TaskResult::default()
    }
}

/// Which tasks of a plan are done, and what became of the others.
struct Progress {
    graph: Graph,
    ids: Vec<TaskId>,
    waiting: Vec<Option<Task>>,
    done: Vec<bool>,
    stopped: BTreeMap<usize, String>,
    outcome: Outcome,
}

impl Progress {
    fn new(plan: Plan, graph: Graph) -> Self {
        Self {
            graph,
            ids: plan.tasks.iter().map(Task::id).collect(),
            done: vec![false; plan.tasks.len()],
            waiting: plan.tasks.into_iter().map(Some).collect(),
            stopped: BTreeMap::new(),
            outcome: Outcome::default(),
        }
    }

    /// Takes the tasks whose predecessors are all done.
    fn ready(&mut self) -> Vec<(usize, Task)> {
        let (graph, done, waiting) = (&self.graph, &self.done, &mut self.waiting);
        let places = graph.order.iter();
        places
            .filter(|place| graph.before[**place].iter().all(|other| done[*other]))
            .filter_map(|place| Some((*place, waiting[*place].take()?)))
            .collect()
    }

    fn ended(&mut self, place: usize, result: TaskResult) {
        self.outcome.changed += result.changed;
        self.outcome.unchanged += result.unchanged;
        match result.end {
            End::Done => self.done[place] = true,
            End::Failed(step, error) => {
                let id = self.ids[place].clone();
                self.outcome.failed.push((id, step, error));
            }
            End::StoppedBefore(step) => {
                self.stopped.insert(place, step);
            }
        }
    }

    /// The outcome, with a reason for each task that was not done.
    fn outcome(mut self, stopped: bool) -> Outcome {
        let failed: Vec<&TaskId> = self.outcome.failed.iter().map(|(id, _, _)| id).collect();
        let mut roots: Vec<Option<TaskId>> = vec![None; self.ids.len()];
        for &place in &self.graph.order {
            let before = self.graph.before[place].iter();
            roots[place] = match failed.contains(&&self.ids[place]) {
                true => Some(self.ids[place].clone()),
                false => before.flat_map(|other| roots[*other].clone()).next(),
            };
        }
        for (place, id) in self.ids.iter().enumerate() {
            let why = match (
                self.stopped.remove(&place),
                &self.waiting[place],
                &roots[place],
            ) {
                (Some(step), _, _) => Skip::StoppedBefore(step),
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

impl Run {
    /// Runs a task's steps one after another, up to the first that fails.
    async fn task(self: Arc<Self>, task: Task) -> TaskResult {
        let mut result = TaskResult::default();
        let Some(site) = self.sites.get(&task.host) else {
            let error = StepError::Other(format!("there is no connection to {}", task.host));
            result.end = End::Failed(task.name, error);
            return result;
        };
        let _turn = site.turn.lock().await;
        // Never closed, so never an error.
        let _room = self.room.acquire().await;
        let context = StepContext {
            host: site.host.as_ref(),
            undo: &site.receipt,
            events: &self.events,
        };
        for step in &task.steps {
            if self.stop.load(Ordering::Relaxed) {
                result.end = End::StoppedBefore(step.describe());
                break;
            }
            match perform(&task, step.as_ref(), &context).await {
                Ok(true) => result.changed += 1,
                Ok(false) => result.unchanged += 1,
                Err(error) => {
                    result.end = End::Failed(step.describe(), error);
                    break;
                }
            }
        }
        result
    }
}

/// Checks and, where needed, applies one step; says whether the host was changed.
async fn perform(
    task: &Task,
    step: &dyn Step,
    context: &StepContext<'_>,
) -> Result<bool, StepError> {
    let began = Instant::now();
    let tell = |state: StepState| {
        context.events.tell(Event::Step {
            host: task.host.clone(),
            module: task.module.clone(),
            task: task.name.clone(),
            step: step.describe(),
            state,
            elapsed: began.elapsed(),
        });
    };
    tell(StepState::Started);
    let changed = match step.check(context).await {
        Ok(Check::Satisfied) => Ok(false),
        Ok(Check::Needed(reason)) => {
            tracing::debug!(host = %task.host, step = step.id(), reason, "apply");
            step.apply(context).await.map(|()| true)
        }
        Err(error) => Err(error),
    };
    tell(match &changed {
        Ok(true) => StepState::Changed,
        Ok(false) => StepState::Unchanged,
        Err(error) => StepState::Failed(error.to_string()),
    });
    changed
}
