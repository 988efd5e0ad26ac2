//! Runs one step.

use std::collections::BTreeMap;
use std::time::Duration;

use super::notice::Watch;
use super::step::{About, Check, Condition, Step, StepContext, StepError, Wait};
use super::stop::Stop;
use kubexm_host::Host;
use kubexm_types::event::Events;
use kubexm_types::{Message, WarningKind};
use tokio::time::Instant;

/// Time between two polls of a condition.
const PAUSE: Duration = Duration::from_millis(400);

/// What to do about a condition that does not hold in time.
const TIMED_OUT_HINT: &str = "the lines above are what the host reports; remove the cause, then run the same command \
                              again: it continues with this condition";

/// What to do about a condition that cannot come true, unless kubexm names the cause.
const HOPELESS_HINT: &str = "`kubexm doctor` names the cause; remove it, then run the same command again: it continues \
                             with this condition";

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
/// The step failed, or its condition does not hold within the limit, or cannot come true.
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

/// Polls until the condition holds, the limit is reached, or the user stops the run. A condition that makes no progress fails
/// earlier if `stop` has all hosts that miss it, or what it is [about](Wait::about).
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
        let is_hopeless = watch.is_silent()
            && match wait.about() {
                _ if !hosts.is_empty() => stop.ends_waits_on(hosts.keys()),
                About::OwnKubelet => stop.ends_waits_on([host.name()]),
                About::Dns => stop.ends_waits_for_dns(),
                About::Other => false,
            };
        if has_failed || is_hopeless || began.elapsed() >= wait.limit() {
            if let Some(message) = wait.undo(host).await? {
                return Err(StepError::Other(message));
            }
            // A diagnosis that fails must not hide what is missing.
            let diagnosis = match wait.diagnose(host).await {
                Ok(diagnosis) => diagnosis,
                Err(error) => format!("kubexm cannot collect a diagnosis: {error}"),
            };
            let (what, hint) = if is_hopeless {
                ("the condition cannot come true".to_owned(), HOPELESS_HINT)
            } else {
                let seconds = wait.limit().as_secs();
                let what = format!("the condition does not hold after {seconds} seconds");
                (what, TIMED_OUT_HINT)
            };
            let message = format!(
                "{}: {what}: {}\n{}",
                wait.describe(),
                missing.trim(),
                diagnosis.trim()
            );
            let message = Message::new(message).hint(hint);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Describe, Hopeless, Receipt};
    use async_trait::async_trait;
    use kubexm_host::local::LocalHost;
    use kubexm_types::HostName;
    use std::sync::Arc;

    /// A condition that these hosts miss, and what it is about.
    struct Never(Vec<HostName>, About);

    impl Describe for Never {
        fn id(&self) -> String {
            "never".to_owned()
        }

        fn describe(&self) -> String {
            "Wait until every node is Ready".to_owned()
        }
    }

    #[async_trait]
    impl Wait for Never {
        fn limit(&self) -> Duration {
            Duration::from_secs(300)
        }

        async fn poll(&self, _: &dyn Host) -> Result<Condition, StepError> {
            let missing = "a node is not Ready".to_owned();
            let hosts = self.0.iter().map(|host| (host.clone(), missing.clone()));
            let hosts: BTreeMap<HostName, String> = hosts.collect();
            Ok(if hosts.is_empty() {
                Condition::Unmet(missing)
            } else {
                Condition::UnmetBy { missing, hosts }
            })
        }

        fn about(&self) -> About {
            self.1
        }

        async fn diagnose(&self, _: &dyn Host) -> Result<String, StepError> {
            Ok("its log".to_owned())
        }
    }

    fn names<T: FromIterator<HostName>>(all: &[&str]) -> T {
        all.iter().map(|name| name.parse().unwrap()).collect()
    }

    /// Returns after how many seconds a wait on node1 for some hosts fails, and its first line.
    async fn ended(missing: &[&str], about: About, hopeless: Hopeless) -> (u64, String) {
        let host: Arc<dyn Host> = Arc::new(LocalHost::new("node1".parse().unwrap()));
        let receipt = Receipt::new(Arc::clone(&host));
        let context = StepContext {
            host: host.as_ref(),
            undo: &receipt,
            events: &Events::silent(),
        };
        let stop = Stop::new();
        stop.end_waits(Some(hopeless));
        let began = Instant::now();
        let step = Step::Wait(Box::new(Never(names(missing), about)));
        let error = perform(&step, &context, &stop).await.unwrap_err();
        assert!(error.is_unmet());
        let text = error.to_string();
        let line = text.lines().next().unwrap().to_owned();
        (began.elapsed().as_secs(), line)
    }

    #[tokio::test(start_paused = true)]
    async fn wait_without_hope_fails_once_it_makes_no_progress() {
        let on = |hosts: &[&str]| Hopeless::Hosts(names(hosts));
        let of_two = on(&["node2", "node3"]);
        let (seconds, line) = ended(&["node2"], About::Other, of_two).await;
        assert!((30..32).contains(&seconds), "{seconds}");
        assert_eq!(
            line,
            "Wait until every node is Ready: the condition cannot come true: a node is not Ready"
        );
        for (about, hopeless) in [
            (About::OwnKubelet, on(&["node1"])),
            (About::Dns, Hopeless::Dns),
        ] {
            assert!(ended(&[], about, hopeless).await.0 < 32, "{about:?}");
        }
        // Another host may still become ready, and the one that polls may only ask for others.
        for (missing, about, hopeless) in [
            (&["node2", "node3"][..], About::OwnKubelet, on(&["node2"])),
            (&["node2"], About::OwnKubelet, on(&["node1"])),
            (&["node2"], About::Other, Hopeless::Dns),
            (&[], About::Other, on(&["node1"])),
            (&[], About::Other, Hopeless::Dns),
            (&[], About::Dns, on(&["node1"])),
            (&[], About::OwnKubelet, on(&["node2"])),
            (&[], About::OwnKubelet, Hopeless::Dns),
            (&[], About::OwnKubelet, on(&[])),
        ] {
            let (seconds, line) = ended(missing, about, hopeless).await;
            assert!(seconds >= 300, "{missing:?} {about:?}: {seconds}");
            assert!(line.contains("does not hold after 300 seconds"), "{line}");
        }
    }
}
