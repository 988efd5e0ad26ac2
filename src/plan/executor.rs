//! Runs a plan: each task as soon as its predecessors are done, one task a host at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::graph::{BrokenPlan, Graph};
use super::receipt::Receipt;
use super::step::{Check, Step, StepContext, StepError};
use super::task::{Plan, Task, TaskId};
use crate::event::{Event, Events, StepState};
use crate::host::{Host, HostError};
use crate::spec::HostName;

/// What became of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Steps that changed a host.
    pub changed: usize,
    /// Steps that found the host as wanted.
    pub unchanged: usize,
    /// Tasks that failed: task, step, why.
    pub failed: Vec<(TaskId, String, StepError)>,
    /// Tasks that were not begun since others failed or the run was stopped.
    pub skipped: Vec<TaskId>,
    /// Tasks that were left running on their hosts, since they did not end in time after a stop
    /// or the loss of a host.
    pub abandoned: usize,
    /// Whether the user stopped the run.
    pub interrupted: bool,
}

/// A flag by which a run is asked to stop after the steps that are running.
pub type Stop = CancellationToken;

/// What steps get to end once the run was asked to stop. Those that do not end are left: their
/// commands go on, and the next run copes with that as with a killed one.
pub const GRACE: Duration = Duration::from_secs(10);
/// How long nothing may end on the other hosts once a host was lost: some wait for it in vain.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Default)]
struct TaskResult {
    place: usize,
    changed: usize,
    unchanged: usize,
    failure: Option<(String, StepError)>,
    interrupted: bool,
    /// It was not begun, since its host was lost.
    without_host: bool,
}

/// One host with what the executor keeps for it.
struct Site {
    host: Arc<dyn Host>,
    receipt: Receipt,
    turn: Mutex<()>,
    /// The connection broke: what is left to do there waits for the next run.
    lost: AtomicBool,
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
    let sites: BTreeMap<HostName, Arc<Site>> = hosts
        .iter()
        .map(|(name, host)| {
            let receipt = Receipt::of(Arc::clone(host));
            let site = Site {
                host: Arc::clone(host),
                receipt,
                turn: Mutex::new(()),
                lost: AtomicBool::new(false),
            };
            (name.clone(), Arc::new(site))
        })
        .collect();
    let ids: Vec<TaskId> = plan.tasks.iter().map(Task::id).collect();
    let mut waiting: Vec<Option<Task>> = plan.tasks.into_iter().map(Some).collect();
    let mut done = vec![false; waiting.len()];
    let mut outcome = Outcome::default();
    let mut running = JoinSet::new();
    let mut left_out = Vec::new();
    // Set when a host was lost, and again whenever a task ended after that.
    let mut patience: Option<tokio::time::Instant> = None;
    let stopped = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::pin!(stopped);
    loop {
        if !stop.is_cancelled() {
            for &place in &graph.order {
                if graph.before[place].iter().all(|other| done[*other])
                    && let Some(task) = waiting[place].take()
                {
                    let site = sites.get(&task.host).cloned();
                    running.spawn(run(place, task, site, events.clone(), stop.clone()));
                }
            }
        }
        let finished = tokio::select! {
            finished = running.join_next() => finished,
            () = &mut stopped, if !running.is_empty() => None,
            () = until(patience), if !running.is_empty() => None,
        };
        let Some(finished) = finished else { break };
        patience = patience.map(|_| tokio::time::Instant::now() + PATIENCE);
        let Ok(result) = finished else { continue };
        if result.without_host {
            left_out.push(ids[result.place].clone());
            continue;
        }
        outcome.changed += result.changed;
        outcome.unchanged += result.unchanged;
        outcome.interrupted |= result.interrupted;
        match result.failure {
            Some((step, error)) => {
                if is_loss(&error) {
                    patience = Some(tokio::time::Instant::now() + PATIENCE);
                }
                outcome
                    .failed
                    .push((ids[result.place].clone(), step, error));
            }
            None => done[result.place] = !result.interrupted,
        }
    }
    outcome.abandoned = running.len();
    outcome.interrupted |= stop.is_cancelled();
    let left = waiting.iter().zip(ids).filter(|(task, _)| task.is_some());
    outcome.skipped = left.map(|(_, id)| id).chain(left_out).collect();
    Ok(outcome)
}

async fn until(when: Option<tokio::time::Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

fn is_loss(error: &StepError) -> bool {
    matches!(error, StepError::Host(HostError::Unreachable { .. }))
}

async fn run(
    place: usize,
    task: Task,
    site: Option<Arc<Site>>,
    events: Events,
    stop: Stop,
) -> TaskResult {
    let mut result = TaskResult {
        place,
        ..TaskResult::default()
    };
    let Some(site) = site else {
        let error = StepError::Other(format!("there is no connection to {}", task.host));
        result.failure = Some((task.name, error));
        return result;
    };
    let _turn = site.turn.lock().await;
    if site.lost.load(Ordering::Relaxed) {
        result.without_host = true;
        return result;
    }
    let context = StepContext {
        host: site.host.as_ref(),
        undo: &site.receipt,
        events: &events,
    };
    for step in &task.steps {
        if stop.is_cancelled() {
            result.interrupted = true;
            return result;
        }
        match perform(&task, step.as_ref(), &context, &events).await {
            Ok(true) => result.changed += 1,
            Ok(false) => result.unchanged += 1,
            Err(error) => {
                site.lost.fetch_or(is_loss(&error), Ordering::Relaxed);
                result.failure = Some((step.describe(), error));
                return result;
            }
        }
    }
    result
}

/// Checks and, where needed, applies one step; says whether the host was changed.
async fn perform(
    task: &Task,
    step: &dyn Step,
    context: &StepContext<'_>,
    events: &Events,
) -> Result<bool, StepError> {
    let began = Instant::now();
    let tell = |state: StepState| {
        events.tell(Event::Step {
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
