//! Whether a run of a plan is a success.

use crate::session::{self, Hosts};
use crate::stop::AGAIN;
use crate::{CommandError, LeftOver, StepFailures, Stop, listeners};
use kubexm_engine::plan::{self, Outcome, Plan, SkipReason};
use kubexm_host::HostError;
use kubexm_types::event::Events;

/// The numbers of steps of plans that succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) changed: usize,
    pub(crate) unchanged: usize,
    pub(crate) ran: usize,
}

impl std::ops::AddAssign for Ended {
    fn add_assign(&mut self, other: Self) {
        self.changed += other.changed;
        self.unchanged += other.unchanged;
        self.ran += other.ran;
    }
}

/// Runs a plan.
///
/// # Errors
/// A step failed, or the user stopped the command.
pub(crate) async fn carry_out(
    plan: Plan,
    hosts: &Hosts,
    events: &Events,
    stop: &Stop,
) -> Result<Ended, CommandError> {
    let counted = listeners::with_counter(events, &plan);
    let outcome = plan::execute(plan, hosts, &counted, stop)
        .await
        .map_err(CommandError::configuration)?;
    let unreachable = match outcome.failed.is_empty() {
        true => Vec::new(),
        false => session::unreachable(hosts).await,
    };
    let ended = Ended {
        changed: outcome.changed,
        unchanged: outcome.unchanged,
        ran: outcome.ran,
    };
    judge(outcome, unreachable)?;
    Ok(ended)
}

/// Returns the failure of a run in which a step failed or which the user stopped.
pub(crate) fn judge(outcome: Outcome, unreachable: Vec<HostError>) -> Result<(), CommandError> {
    let left = left_over(&outcome);
    if !outcome.failed.is_empty() {
        return Err(CommandError::Steps(StepFailures {
            failed: outcome.failed,
            unreachable,
            left,
        }));
    }
    match outcome.interrupted {
        true => Err(CommandError::Interrupted(format!(
            "stopped{left}\nhint: {AGAIN}"
        ))),
        false => Ok(()),
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
