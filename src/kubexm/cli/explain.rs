//! Why a condition does not come true.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubexm_diagnose::doctor::{self, DoctorOptions, DoctorReport, Finding};
use kubexm_session::error::Explained;
use kubexm_session::{CommandError, Connection, Stop};
use kubexm_types::event::{Event, Events, Listener};
use kubexm_types::{Message, WarningKind};
use tokio::sync::Notify;

/// The time without progress after which the doctor looks why a condition does not hold.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time after a look that found no cause until the next one.
const PAUSE: Duration = Duration::from_secs(60);
/// The time between two looks that must find the same lasting cause before a wait ends.
const CONFIRMATION: Duration = Duration::from_secs(15);

/// A cluster, and how the doctor reaches its hosts.
struct Examined<'a> {
    cluster: &'a Path,
    connection: &'a Connection,
    events: &'a Events,
    stop: &'a Stop,
}

/// Runs work that waits for conditions. The doctor looks for the cause when one makes no progress, beside the work, and
/// when one does not come true in time: the error then begins with the cause.
pub async fn during<T>(
    (cluster, connection): (&Path, &Connection),
    events: &Events,
    stop: &Stop,
    work: impl AsyncFnOnce(Events) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let examined = Examined {
        cluster,
        connection,
        events,
        stop,
    };
    examined.during(work).await
}

impl Examined<'_> {
    async fn during<T>(
        &self,
        work: impl AsyncFnOnce(Events) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let waits = Arc::new(Waits {
            to: self.events.clone(),
            is_long: Notify::new(),
        });
        let events = self.events.through(Arc::clone(&waits) as _);
        let lasting = Mutex::new(None);
        let result = tokio::select! {
            result = Box::pin(work(events)) => result,
            never = self.look(&waits.is_long, async || self.examine().await, &lasting) => match never {},
        };
        self.stop.end_waits(None);
        let lasting = lasting.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Err(CommandError::Steps(failures)) = result else {
            return result;
        };
        let unmet = failures.unmet();
        if unmet.is_none() && !failures.has_awaited() {
            return Err(CommandError::Steps(failures));
        }
        let found = match lasting {
            Some(found) => Some(found),
            None => {
                self.events
                    .note("a condition does not hold: the doctor looks for the cause");
                let report = self.examine().await;
                report.and_then(|report| report.main_cause().cloned())
            }
        };
        Err(match (&found, unmet) {
            (Some(found), Some(waited)) => CommandError::Explained(Box::new(Explained {
                cause: message(found),
                commands: found.commands.clone(),
                waited,
                left: failures.left,
            })),
            // What the command itself says can be more exact.
            (Some(found), None) => {
                self.events.warn(WarningKind::Cause, warning(found));
                CommandError::Steps(failures)
            }
            (None, _) => CommandError::Steps(failures),
        })
    }

    /// Looks for the cause whenever a condition makes no progress, and prints the first one. The same lasting cause in two looks
    /// ends the waits that need it removed, and is in `lasting` as long as looks find it.
    async fn look(
        &self,
        is_long: &Notify,
        examine: impl AsyncFn() -> Option<DoctorReport>,
        lasting: &Mutex<Option<Finding>>,
    ) -> Infallible {
        let set = |found: Option<&Finding>| {
            *lasting.lock().unwrap_or_else(PoisonError::into_inner) = found.cloned();
            self.stop
                .end_waits(found.and_then(|found| found.keeps_waiting.clone()));
        };
        let mut is_printed = false;
        let mut former: Option<Finding> = None;
        loop {
            is_long.notified().await;
            loop {
                let report = examine().await;
                let cause = report.as_ref().and_then(|report| report.main_cause());
                if let Some(found) = cause.filter(|_| !is_printed) {
                    self.events.warn(WarningKind::Cause, warning(found));
                    is_printed = true;
                }
                let found = report.and_then(|report| report.lasting_cause().cloned());
                let is_same =
                    |former: &Finding| found.as_ref().is_some_and(|found| former.is_same(found));
                set(found
                    .as_ref()
                    .filter(|_| former.as_ref().is_some_and(is_same)));
                former = found;
                if former.is_none() {
                    break;
                }
                tokio::time::sleep(CONFIRMATION).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Makes all checks. An examination that fails must not hide what the work says.
    async fn examine(&self) -> Option<DoctorReport> {
        let options = DoctorOptions {
            cluster: self.cluster.to_owned(),
            connection: self.connection.clone(),
        };
        let silent = Events::silent();
        Box::pin(doctor::doctor(&options, &silent, self.stop))
            .await
            .ok()
    }
}

/// Passes events on, and says when a condition makes no progress.
struct Waits {
    to: Events,
    is_long: Notify,
}

impl Listener for Waits {
    fn on(&self, event: &Event) {
        if let Event::Waiting {
            missing: Some(_),
            elapsed,
            ..
        } = event
            && *elapsed >= PATIENCE
        {
            self.is_long.notify_one();
        }
        self.to.emit(event.clone());
    }
}

/// Returns what the doctor found while kubexm waits, with the commands that help.
fn warning(found: &Finding) -> Message {
    let Message { text, hint, .. } = message(found);
    let commands: String = found
        .commands
        .iter()
        .map(|line| format!("\n  {line}"))
        .collect();
    let hint = hint.map(|fix| format!("{fix}{commands}"));
    Message::new(format!("kubexm waits, and this may be why: {text}")).or_hint(hint.as_deref())
}

fn message(found: &Finding) -> Message {
    let hosts: Vec<&str> = found.hosts.iter().map(|host| host.as_str()).collect();
    let mut text = found.what.clone();
    if !hosts.is_empty() {
        text = format!("{}: {text}", hosts.join(", "));
    }
    if !found.cause.is_empty() {
        text = format!("{text}: {}", found.cause);
    }
    let message = Message::new(text);
    if found.fix.is_empty() {
        message
    } else {
        message.hint(found.fix.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::example;
    use doctor::Certainty;
    use kubexm_session::Hopeless;

    #[tokio::test(start_paused = true)]
    async fn a_condition_without_progress_is_noticed() {
        let waits = Arc::new(Waits {
            to: Events::silent(),
            is_long: Notify::new(),
        });
        let events = Events::silent().through(Arc::clone(&waits) as _);
        let wait = |missing: Option<&str>, seconds| {
            events.emit(Event::Waiting {
                host: None,
                what: "Wait until CoreDNS answers".to_owned(),
                missing: missing.map(str::to_owned),
                elapsed: Duration::from_secs(seconds),
            });
        };
        let is_noticed = async || {
            let noticed = waits.is_long.notified();
            let noticed = tokio::time::timeout(Duration::from_millis(1), noticed);
            noticed.await.is_ok()
        };
        wait(Some("no pod is ready"), 29);
        // A command that runs is not a condition.
        wait(None, 90);
        assert!(!is_noticed().await);
        wait(Some("no pod is ready"), 30);
        assert!(is_noticed().await);
    }

    /// Returns which cause is lasting after each look, with the seconds since the first one.
    async fn looked(reports: Vec<DoctorReport>) -> Vec<(u64, Option<&'static str>)> {
        let stop = Stop::new();
        let connection = Connection::default();
        let examined = Examined {
            cluster: Path::new("cluster.yaml"),
            connection: &connection,
            events: &Events::silent(),
            stop: &stop,
        };
        let (is_long, lasting) = (Notify::new(), Mutex::new(None::<Finding>));
        let began = tokio::time::Instant::now();
        let (rest, seen) = (Mutex::new(reports.into_iter()), Mutex::new(Vec::new()));
        let note = || {
            let check = lasting.lock().unwrap().as_ref().map(|found| found.check);
            seen.lock()
                .unwrap()
                .push((began.elapsed().as_secs(), check));
        };
        let examine = async || {
            note();
            is_long.notify_one();
            let next = rest.lock().unwrap().next();
            match next {
                Some(report) => Some(report),
                None => std::future::pending().await,
            }
        };
        is_long.notify_one();
        let look = examined.look(&is_long, examine, &lasting);
        assert!(
            tokio::time::timeout(Duration::from_secs(600), look)
                .await
                .is_err()
        );
        seen.into_inner().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_if_two_looks_find_the_same_lasting_cause() {
        let lasting = example::report();
        let mut other = lasting.clone();
        other.findings[0].keeps_waiting = Some(Hopeless::Dns);
        let mut may_end = lasting.clone();
        may_end.findings[0].keeps_waiting = None;
        let (all, swap) = (vec![lasting.clone(), lasting.clone()], Some("swap"));
        assert_eq!(looked(all).await, [(0, None), (15, None), (30, swap)]);
        // Another cause, one that may end by itself, and none, do not confirm it. What two looks found does not stay.
        let all = vec![
            lasting.clone(),
            other.clone(),
            other,
            may_end.clone(),
            lasting,
        ];
        let found = [None, None, None, swap, None, None];
        let seen = looked(all).await;
        assert_eq!(
            seen.iter().map(|(_, found)| *found).collect::<Vec<_>>(),
            found
        );
        assert_eq!(
            looked(vec![may_end.clone(), may_end]).await.last(),
            Some(&(120, None))
        );
    }

    #[test]
    fn only_a_certain_cause_with_a_consequence_lasts() {
        let lasts = |change: &dyn Fn(&mut DoctorReport)| {
            let mut report = example::report();
            change(&mut report);
            report.lasting_cause().is_some()
        };
        assert!(lasts(&|_| {}));
        assert!(!lasts(
            &|report| report.findings[0].certainty = Certainty::Likely
        ));
        assert!(!lasts(&|report| report.findings[0].keeps_waiting = None));
        assert!(!lasts(&|report| {
            report.findings.pop();
            report.findings[0].area = doctor::Area::Kubelets;
        }));
    }

    #[test]
    fn the_cause_of_most_findings_is_the_error() {
        let mut report = example::report();
        let unrelated = Finding {
            check: "commands",
            area: doctor::Area::Hosts,
            what: "an upgrade was interrupted".to_owned(),
            ..report.findings[0].clone()
        };
        report.findings.insert(0, unrelated);
        let found = report.main_cause().unwrap();
        insta::assert_snapshot!(warning(found), @"
        kubexm waits, and this may be why: node2: swap is on: /swapfile: a kubelet does not start with swap, unless failSwapOn of its configuration is false
        hint: turn swap off, also for the next boot
          kubexm exec -f cluster.yaml --host node2 -- swapoff -a
        ");
        let shown = message(found);
        assert_eq!(
            shown.text,
            "node2: swap is on: /swapfile: a kubelet does not start with swap, unless failSwapOn of its configuration is false"
        );
        let fix = "turn swap off, also for the next boot";
        assert_eq!(shown.hint.as_deref(), Some(fix));
        // Without a consequence, nothing says that it is about what the command waited for.
        report.findings.pop();
        assert_eq!(report.main_cause(), None);
        let network = &mut report.findings[1];
        network.area = doctor::Area::Network;
        assert!(report.main_cause().is_some());
        report.findings[1].is_warning = true;
        assert_eq!(report.main_cause(), None);
        report.findings[1].is_warning = false;
        report.findings[1].certainty = Certainty::Possible;
        assert_eq!(report.main_cause(), None);
    }
}
