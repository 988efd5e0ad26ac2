//! Being told to stop: Ctrl-C, `kill`, a terminal that went away.

use tokio::signal::unix::{Signal, SignalKind, signal};

use kubexm_commands::stop::{AGAIN, Stop};
use kubexm_types::event::Events;

/// What a run that was asked to stop says of what it still does.
pub const STOPPING_STEPS: &str =
    "stopping: steps that are running get 10 seconds to end; Ctrl-C again stops at once";
/// The same of a build.
pub const STOPPING_BUILD: &str = "stopping: what is downloaded stays in the cache";

/// The same of what leaves nothing behind.
pub const STOPPING: &str = "stopping: nothing half done is left behind";

/// Watches from now on. The first signal asks the run to stop, which is told by `stopping`; the
/// second ends the program at once.
pub fn watch(events: &Events, stopping: &'static str) -> Stop {
    let stop = Stop::new();
    let (flag, events) = (stop.clone(), events.clone());
    let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
    if !ignores_hangup() {
        kinds.push(SignalKind::hangup());
    }
    let signals: Result<Vec<Signal>, _> = kinds.into_iter().map(signal).collect();
    tokio::spawn(async move {
        let Ok(mut signals) = signals else {
            events.warn("signals cannot be watched: Ctrl-C ends kubexm at once");
            return;
        };
        any(&mut signals).await;
        flag.cancel();
        events.note(stopping);
        any(&mut signals).await;
        let words = format!("stopped at once, in the middle of what was going on; {AGAIN}");
        events.note(&words);
        events.end(1, Some(words));
        std::process::exit(1);
    });
    stop
}

async fn any(signals: &mut [Signal]) {
    let each = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
    futures_util::future::select_all(each).await;
}

/// Whether we were started under nohup: then a terminal that goes away must not stop us.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is signal 1: the lowest bit.
    mask.is_some_and(|mask| mask & 1 == 1)
}
