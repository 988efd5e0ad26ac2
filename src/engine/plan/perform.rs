//! Runs one step.

use std::collections::BTreeMap;
use std::time::Duration;

use super::executor::Stop;
use super::notice::Watch;
use super::step::{Check, Condition, Step, StepContext, StepError, Wait};
use kubexm_host::Host;
use kubexm_types::event::Events;
use kubexm_types::{Message, WarningKind};
use tokio::time::Instant;

/// Time between two polls of a condition.
const PAUSE: Duration = Duration::from_millis(400);

/// What to do about a condition that does not hold in time.
const TIMED_OUT_HINT: &str = "the lines above are what the host reports; remove the cause, then run the same command \
                              again: it continues with this condition";

/// What running a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The host had the desired state.
    Unchanged,
    /// The host was changed.
    Changed,
    /// The action ran.
    Ran,
    /// The condition holds.
    Met,
    /// The user stopped the run while the condition did not hold.
    Stopped,
}

/// Runs a step: an [`Ensure`](Step::Ensure) is applied only where its check says so, an
/// [`Action`](Step::Action) always runs, a [`Wait`](Step::Wait) is polled.
///
/// # Errors
/// The step failed, or its condition does not hold within the limit.
pub async fn perform(
    step: &Step,
    context: &StepContext<'_>,
    stop: &Stop,
) -> Result<Done, StepError> {
    let watch = Watch::new(&Events::silent(), context.host.name(), step.describe());
    perform_watched(step, context, stop, &watch).await
}

/// Runs a step like [`perform`], and reports to `watch` what a condition is missing.
pub(super) async fn perform_watched(
    step: &Step,
    context: &StepContext<'_>,
    stop: &Stop,
    watch: &Watch,
) -> Result<Done, StepError> {
    match step {
        Step::Ensure(ensure) => match ensure.check(context.host).await? {
            Check::Satisfied => Ok(Done::Unchanged),
            Check::Reported(message) => {
                let host = context.host.name();
                context
                    .events
                    .warn(WarningKind::NotApplied, message.clone().within(host));
                Ok(Done::Unchanged)
            }
            Check::Needed {
                reason,
                shows_lines,
            } => {
                if shows_lines {
                    let (host, reason) = (context.host.name(), reason.trim());
                    let note = format!("{host}: {}: {reason}", step.describe());
                    context.events.note(note);
                }
                tracing::debug!(host = %context.host.name(), step = step.id(), reason, "apply");
                if let Some(missing) = ensure.waits_for() {
                    watch.missing(missing);
                }
                ensure.apply(context).await.map(|()| Done::Changed)
            }
        },
        Step::Action(action) => action.run(context.host).await.map(|()| Done::Ran),
        Step::Wait(wait) => poll(wait.as_ref(), context.host, stop, watch).await,
    }
}

/// Polls until the condition holds, the limit is reached, or the user stops the run.
async fn poll(
    wait: &dyn Wait,
    host: &dyn Host,
    stop: &Stop,
    watch: &Watch,
) -> Result<Done, StepError> {
    let began = Instant::now();
    loop {
        let (missing, hosts, has_failed) = match wait.poll(host).await? {
            Condition::Met => return Ok(Done::Met),
            Condition::Unmet(missing) => (missing, BTreeMap::new(), false),
            Condition::Failed(missing) => (missing, BTreeMap::new(), true),
            Condition::UnmetBy { missing, hosts } => (missing, hosts, false),
        };
        watch.missing(missing.trim());
        if has_failed || began.elapsed() >= wait.limit() {
            if let Some(message) = wait.undo(host).await? {
                return Err(StepError::Other(message));
            }
            // A diagnosis that fails must not hide what is missing.
            let diagnosis = match wait.diagnose(host).await {
                Ok(diagnosis) => diagnosis,
                Err(error) => format!("kubexm cannot collect a diagnosis: {error}"),
            };
            let message = format!(
                "{}: the condition does not hold after {} seconds: {}\n{}",
                wait.describe(),
                wait.limit().as_secs(),
                missing.trim(),
                diagnosis.trim()
            );
            let message = Message::new(message).hint(TIMED_OUT_HINT);
            return Err(if hosts.is_empty() {
                StepError::Unmet(message)
            } else {
                StepError::OtherHosts { hosts, message }
            });
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stop.cancelled() => return Ok(Done::Stopped),
        }
    }
}
