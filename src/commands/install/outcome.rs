//! Whether a run of a plan is a success.

use crate::stop::AGAIN;
use crate::{CommandError, LeftOver, StepFailures};
use kubexm_engine::plan::{Outcome, SkipReason};
use kubexm_host::HostError;

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
