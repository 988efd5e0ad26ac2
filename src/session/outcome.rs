//! Runs of plans, and whether they are a success.

use std::path::Path;

use crate::session::{self, Hosts};
use crate::stop::{AGAIN, Stop};
use crate::{CommandError, LeftOver, StepFailures, listeners};
use kubexm_engine::plan::{self, Outcome, Plan, SkipReason};
use kubexm_host::HostError;
use kubexm_types::event::{Event, Events};

/// The numbers of steps of plans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// The number of steps that changed a host.
    pub changed: usize,
    /// The number of steps that found their host in the desired state.
    pub unchanged: usize,
    /// The number of actions that ran.
    pub ran: usize,
}

impl Ended {
    /// Returns the event with the numbers; `kubeconfig` is the file that the command saved.
    pub fn summary(self, kubeconfig: Option<&Path>) -> Event {
        Event::Summary {
            changed: self.changed,
            unchanged: self.unchanged,
            ran: self.ran,
            kubeconfig: kubeconfig.map(|path| path.display().to_string()),
            offers: None,
        }
    }
}

impl std::ops::AddAssign for Ended {
    fn add_assign(&mut self, other: Self) {
        self.changed += other.changed;
        self.unchanged += other.unchanged;
        self.ran += other.ran;
    }
}

/// A run of a plan that ended.
pub struct Run {
    pub ended: Ended,
    /// The failure of a run in which a step failed or which the user stopped.
    pub judged: Result<(), CommandError>,
}

impl Run {
    /// Looks which hosts are unreachable if a step failed.
    pub async fn of(outcome: Outcome, hosts: &Hosts) -> Self {
        let unreachable = if outcome.failed.is_empty() {
            Vec::new()
        } else {
            session::unreachable(hosts).await
        };
        Self {
            ended: Ended {
                changed: outcome.changed,
                unchanged: outcome.unchanged,
                ran: outcome.ran,
            },
            judged: judge(outcome, unreachable),
        }
    }
}

/// Runs a plan to its end.
///
/// # Errors
/// A step failed, or the user stopped the command.
pub async fn carry_out(
    plan: Plan,
    hosts: &Hosts,
    events: &Events,
    stop: &Stop,
) -> Result<Ended, CommandError> {
    let run = run(plan, hosts, events, stop).await?;
    run.judged.map(|()| run.ended)
}

/// Runs a plan to its end, for a caller that has work even if a step failed.
///
/// # Errors
/// The plan is wrong.
pub async fn run(
    plan: Plan,
    hosts: &Hosts,
    events: &Events,
    stop: &Stop,
) -> Result<Run, CommandError> {
    let counted = listeners::with_counter(events, &plan);
    let outcome = plan::execute(plan, hosts, &counted, stop).await?;
    Ok(Run::of(outcome, hosts).await)
}

fn judge(outcome: Outcome, unreachable: Vec<HostError>) -> Result<(), CommandError> {
    let left = left_over(&outcome);
    if !outcome.failed.is_empty() {
        return Err(CommandError::Steps(StepFailures {
            failed: outcome.failed,
            unreachable,
            left,
        }));
    }
    if outcome.interrupted {
        Err(CommandError::interrupted(format!("stopped{left}")).hint(AGAIN))
    } else {
        Ok(())
    }
}

/// Counts the tasks that did not end.
fn left_over(outcome: &Outcome) -> LeftOver {
    let skipped = outcome.skipped.iter();
    let running = skipped
        .filter(|(_, why)| *why == SkipReason::LeftRunning)
        .count();
    LeftOver {
        running,
        waiting: outcome.skipped.len() - running,
    }
}
