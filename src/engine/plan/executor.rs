//! Runs a plan: each task as soon as its predecessors are done, one task a host at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant as Moment;
use tokio_util::sync::CancellationToken;

use super::graph::{BrokenPlan, Graph};
use super::perform::{Done, perform};
use super::progress::{End, Outcome, Progress, TaskResult};
use super::receipt::Receipt;
use super::step::{Step, StepContext, StepError};
use super::task::{Plan, Task};
use kubexm_host::Host;
use kubexm_types::HostName;
use kubexm_types::event::{Event, Events, StepState};

/// So many hosts are worked on at once: each may be unpacking the bundle on a thread of its own.
pub const AT_ONCE: usize = 32;

/// A flag by which a run is asked to stop after the steps that are running.
pub type Stop = CancellationToken;

/// What steps get to end once the run was asked to stop. Those that do not end are left: their
/// commands go on, and the next run copes with that as with a killed one.
pub const GRACE: Duration = Duration::from_secs(10);
/// How long nothing may end on the other hosts once a host was lost: some wait for it in vain.
const PATIENCE: Duration = Duration::from_secs(120);

/// One host with what the executor keeps for it.
struct Site {
    host: Arc<dyn Host>,
    receipt: Receipt,
    turn: Mutex<()>,
    /// The connection broke: what is left to do there waits for the next run.
    lost: AtomicBool,
}

impl Site {
    fn of(host: &Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self {
            host: Arc::clone(host),
            receipt: Receipt::of(Arc::clone(host)),
            turn: Mutex::new(()),
            lost: AtomicBool::new(false),
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
        stop: stop.clone(),
    });
    let mut progress = Progress::new(plan, graph);
    let mut running = JoinSet::new();
    let mut places = BTreeMap::new();
    // Set when a host was lost, and again whenever a task ended after that.
    let mut patience: Option<Moment> = None;
    let stopped = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::pin!(stopped);
    loop {
        if !stop.is_cancelled() {
            for (place, task) in progress.ready() {
                let handle = running.spawn(Arc::clone(&run).task(task));
                places.insert(handle.id(), place);
            }
        }
        let finished = tokio::select! {
            finished = running.join_next_with_id() => finished,
            () = &mut stopped, if !running.is_empty() => None,
            () = until(patience), if !running.is_empty() => None,
        };
        let Some(finished) = finished else { break };
        let (id, result) = match finished {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), broken_off(&error)),
        };
        if patience.is_some() || result.lost_its_host() {
            patience = Some(Moment::now() + PATIENCE);
        }
        if let Some(place) = places.remove(&id) {
            progress.ended(place, result);
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

/// What a task leaves that panicked.
fn broken_off(error: &tokio::task::JoinError) -> TaskResult {
    let words = format!("it broke off, which is a defect of kubexm: {error}");
    TaskResult {
        end: End::Failed("unknown step".to_owned(), StepError::Other(words)),
        ..TaskResult::default()
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
        if site.lost.load(Ordering::Relaxed) {
            result.end = End::WithoutHost;
            return result;
        }
        let context = StepContext {
            host: site.host.as_ref(),
            undo: &site.receipt,
            events: &self.events,
        };
        for step in &task.steps {
            if self.stop.is_cancelled() {
                result.end = End::StoppedBefore(step.describe());
                break;
            }
            match report(&task, step, &context, &self.stop).await {
                Ok(Done::Changed) => result.changed += 1,
                Ok(Done::Unchanged) => result.unchanged += 1,
                Ok(Done::Ran) => result.ran += 1,
                Ok(Done::Met) => {}
                Ok(Done::Stopped) => {
                    result.end = End::StoppedBefore(step.describe());
                    break;
                }
                Err(error) => {
                    site.lost
                        .fetch_or(error.is_loss_of_host(), Ordering::Relaxed);
                    result.end = End::Failed(step.describe(), error);
                    break;
                }
            }
        }
        result
    }
}

/// Runs one step, and reports its start and its end.
async fn report(
    task: &Task,
    step: &Step,
    context: &StepContext<'_>,
    stop: &Stop,
) -> Result<Done, StepError> {
    let began = Instant::now();
    let tell = |state: StepState| {
        context.events.emit(Event::Step {
            host: task.host.clone(),
            module: task.module.clone(),
            task: task.name.clone(),
            step: step.describe(),
            state,
            elapsed: began.elapsed(),
        });
    };
    tell(StepState::Started);
    let done = perform(step, context, stop).await;
    match &done {
        Ok(Done::Changed) => tell(StepState::Changed),
        Ok(Done::Unchanged) => tell(StepState::Unchanged),
        Ok(Done::Ran) => tell(StepState::Ran),
        Ok(Done::Met) => tell(StepState::Met),
        Ok(Done::Stopped) => {}
        Err(error) => tell(StepState::Failed(error.to_string())),
    }
    done
}
