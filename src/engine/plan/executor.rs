//! Runs a plan: each task starts as soon as its predecessors are done. A host runs one task at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

use super::flush;
use super::graph::{Graph, InvalidPlan};
use super::notice::Watch;
use super::perform::{Done, perform_watched};
use super::progress::{Outcome, Progress, TaskEnd, TaskResult};
use super::receipt::Receipt;
use super::step::{Step, StepContext, StepError};
use super::stop::Stop;
use super::task::{Plan, Task};
use kubexm_host::Host;
use kubexm_types::HostName;
use kubexm_types::event::{Event, Events, StepState};

/// Maximum number of hosts that kubexm works on at the same time. Each may decompress the bundle on its
/// own thread.
pub const AT_ONCE: usize = 32;

/// Time that running steps have to end after a stop. The executor leaves the others: their commands
/// continue on the hosts, and the next run handles them as after a killed run.
pub const GRACE: Duration = Duration::from_secs(10);

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
        };
        let Some(finished) = finished else { break };
        let (id, result) = match finished {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), panicked(&error)),
        };
        if let Some(place) = places.remove(&id) {
            progress.record(place, result);
        }
    }
    // The commands of tasks that did not end in time end on their hosts too.
    running.shutdown().await;
    join_all(run.hosts.values().map(|state| state.host.settle())).await;
    let abandoned = places.into_values().collect();
    let outcome = progress.outcome(stop.is_cancelled(), abandoned);
    for (task, why) in &outcome.skipped {
        events.note(format!("not done: {task}: {why}"));
    }
    Ok(outcome)
}

/// Returns the result of a task that panicked.
fn panicked(error: &tokio::task::JoinError) -> TaskResult {
    let message = format!("the task panicked, which is a defect of kubexm: {error}");
    TaskResult {
        end: TaskEnd::Failed("unknown step".to_owned(), StepError::Other(message.into())),
        ..TaskResult::default()
    }
}

impl Run {
    /// Runs a task's steps one after another, until one fails.
    async fn task(self: Arc<Self>, task: Task) -> TaskResult {
        let mut result = TaskResult::default();
        let Some(state) = self.hosts.get(&task.host) else {
            let error = StepError::Other(format!("there is no connection to {}", task.host).into());
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
        for step in &task.steps {
            if self.stop.is_cancelled() {
                result.end = TaskEnd::StoppedBefore(step.describe());
                break;
            }
            match self.report(&task, step, state).await {
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
        let lost = state.lost.load(Ordering::Relaxed);
        if result.changed > 0
            && !lost
            && let Err(error) = flush::flush(state.host.as_ref(), &task).await
        {
            state
                .lost
                .fetch_or(error.is_loss_of_host(), Ordering::Relaxed);
            let failed = TaskEnd::Failed(flush::ACTION.to_owned(), error);
            // The first failure of a task explains more.
            if matches!(result.end, TaskEnd::Done) {
                result.end = failed;
            }
        }
        result
    }

    /// Runs a step. Emits events for its start and its end, and while it makes no progress.
    async fn report(&self, task: &Task, step: &Step, state: &HostState) -> Result<Done, StepError> {
        let began = Instant::now();
        let emit = |state: StepState| {
            self.events.emit(Event::Step {
                host: task.host.clone(),
                module: task.module.clone(),
                task: task.name.clone(),
                step: step.describe(),
                state,
                elapsed: began.elapsed(),
            });
        };
        emit(StepState::Started);
        let watch = Watch::new(&self.events, &task.host, step.describe());
        let events = watch.events();
        let context = StepContext {
            host: state.host.as_ref(),
            undo: &state.receipt,
            events: &events,
        };
        let running = perform_watched(step, &context, &self.stop, &watch);
        let done = watch.during(running).await;
        match &done {
            Ok(Done::Changed) => emit(StepState::Changed),
            Ok(Done::Unchanged) => emit(StepState::Unchanged),
            Ok(Done::Ran) => emit(StepState::Ran),
            Ok(Done::Met) => emit(StepState::Met),
            Ok(Done::Stopped) => {}
            Err(error) => emit(StepState::failed(error.kind(), error)),
        }
        done
    }
}
