//! Runs a plan: each task starts as soon as its predecessors are done. A host runs one task at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant as Moment;
use tokio_util::sync::CancellationToken;

use super::graph::{Graph, InvalidPlan};
use super::perform::{Done, perform};
use super::progress::{Outcome, Progress, TaskEnd, TaskResult};
use super::receipt::Receipt;
use super::step::{Step, StepContext, StepError};
use super::task::{Plan, Task};
use kubexm_host::Host;
use kubexm_types::HostName;
use kubexm_types::event::{Event, Events, StepState};

/// Maximum number of hosts that kubexm works on at the same time. Each may decompress the bundle on its
/// own thread.
pub const AT_ONCE: usize = 32;

/// Stops a run after the steps that are running.
pub type Stop = CancellationToken;

/// Time that running steps have to end after a stop. The executor leaves the others: their commands
/// continue on the hosts, and the next run handles them as after a killed run.
pub const GRACE: Duration = Duration::from_secs(10);
/// Time after the loss of a host, or after the last task that ended since, until the executor abandons
/// the running tasks. Some of them wait for the lost host.
const LOST_HOST_TIMEOUT: Duration = Duration::from_secs(120);

/// A host with the executor's state for it.
struct HostState {
    host: Arc<dyn Host>,
    receipt: Receipt,
    /// Held by the task that runs.
    running: Mutex<()>,
    /// Whether the connection broke. The remaining tasks of the host wait for the next run.
    lost: AtomicBool,
}

impl HostState {
    fn new(host: &Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self {
            host: Arc::clone(host),
            receipt: Receipt::new(Arc::clone(host)),
            running: Mutex::new(()),
            lost: AtomicBool::new(false),
        })
    }
}

/// State that all tasks of a run share.
struct Run {
    hosts: BTreeMap<HostName, Arc<HostState>>,
    active_hosts: Semaphore,
    events: Events,
    stop: Stop,
}

/// Runs all tasks of a plan.
///
/// # Errors
/// The plan is invalid. Failures on hosts are in the [`Outcome`].
pub async fn execute(
    plan: Plan,
    hosts: &BTreeMap<HostName, Arc<dyn Host>>,
    events: &Events,
    stop: &Stop,
) -> Result<Outcome, InvalidPlan> {
    let graph = Graph::new(&plan)?;
    let states = hosts.iter();
    let run = Arc::new(Run {
        hosts: states
            .map(|(name, host)| (name.clone(), HostState::new(host)))
            .collect(),
        active_hosts: Semaphore::new(AT_ONCE),
        events: events.clone(),
        stop: stop.clone(),
    });
    let mut progress = Progress::new(plan, graph);
    let mut running = JoinSet::new();
    let mut places = BTreeMap::new();
    // Set when a host is lost, and renewed whenever a task ends after that.
    let mut deadline: Option<Moment> = None;
    let stopped = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::pin!(stopped);
    loop {
        if !stop.is_cancelled() {
            for (place, task) in progress.take_ready() {
                let handle = running.spawn(Arc::clone(&run).task(task));
                places.insert(handle.id(), place);
            }
        }
        let finished = tokio::select! {
            finished = running.join_next_with_id() => finished,
            () = &mut stopped, if !running.is_empty() => None,
            () = until(deadline), if !running.is_empty() => None,
        };
        let Some(finished) = finished else { break };
        let (id, result) = match finished {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), panicked(&error)),
        };
        if deadline.is_some() || result.lost_its_host() {
            deadline = Some(Moment::now() + LOST_HOST_TIMEOUT);
        }
        if let Some(place) = places.remove(&id) {
            progress.record(place, result);
        }
    }
    let abandoned = places.into_values().collect();
    let outcome = progress.outcome(stop.is_cancelled(), abandoned);
    for (task, why) in &outcome.skipped {
        events.note(format!("not done: {task}: {why}"));
    }
    Ok(outcome)
}

async fn until(when: Option<Moment>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Returns the result of a task that panicked.
fn panicked(error: &tokio::task::JoinError) -> TaskResult {
    let message = format!("the task panicked, which is a defect of kubexm: {error}");
    TaskResult {
        end: TaskEnd::Failed("unknown step".to_owned(), StepError::Other(message)),
        ..TaskResult::default()
    }
}

impl Run {
    /// Runs a task's steps one after another, until one fails.
    async fn task(self: Arc<Self>, task: Task) -> TaskResult {
        let mut result = TaskResult::default();
        let Some(state) = self.hosts.get(&task.host) else {
            let error = StepError::Other(format!("there is no connection to {}", task.host));
            result.end = TaskEnd::Failed(task.name, error);
            return result;
        };
        let _running = state.running.lock().await;
        // An error means a closed semaphore; this one is never closed.
        let _active = self.active_hosts.acquire().await;
        if state.lost.load(Ordering::Relaxed) {
            result.end = TaskEnd::WithoutHost;
            return result;
        }
        let context = StepContext {
            host: state.host.as_ref(),
            undo: &state.receipt,
            events: &self.events,
        };
        for step in &task.steps {
            if self.stop.is_cancelled() {
                result.end = TaskEnd::StoppedBefore(step.describe());
                break;
            }
            match report(&task, step, &context, &self.stop).await {
                Ok(Done::Changed) => result.changed += 1,
                Ok(Done::Unchanged) => result.unchanged += 1,
                Ok(Done::Ran) => result.ran += 1,
                Ok(Done::Met) => {}
                Ok(Done::Stopped) => {
                    result.end = TaskEnd::StoppedBefore(step.describe());
                    break;
                }
                Err(error) => {
                    state
                        .lost
                        .fetch_or(error.is_loss_of_host(), Ordering::Relaxed);
                    result.end = TaskEnd::Failed(step.describe(), error);
                    break;
                }
            }
        }
        result
    }
}

/// Runs a step and emits events for its start and its end.
async fn report(
    task: &Task,
    step: &Step,
    context: &StepContext<'_>,
    stop: &Stop,
) -> Result<Done, StepError> {
    let began = Instant::now();
    let emit = |state: StepState| {
        context.events.emit(Event::Step {
            host: task.host.clone(),
            module: task.module.clone(),
            task: task.name.clone(),
            step: step.describe(),
            state,
            elapsed: began.elapsed(),
        });
    };
    emit(StepState::Started);
    let done = perform(step, context, stop).await;
    match &done {
        Ok(Done::Changed) => emit(StepState::Changed),
        Ok(Done::Unchanged) => emit(StepState::Unchanged),
        Ok(Done::Ran) => emit(StepState::Ran),
        Ok(Done::Met) => emit(StepState::Met),
        Ok(Done::Stopped) => {}
        Err(error) => emit(StepState::Failed(error.to_string())),
    }
    done
}
