//! Reacts to Ctrl-C, `kill`, and a terminal that was closed.

use kubexm_types::{ErrorKind, Message, WarningKind};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit;
use kubexm_session::stop::{AGAIN, Stop, end_connections};
use kubexm_types::event::Events;

/// What a command that changes hosts still does after the first signal.
pub const STOPPING_STEPS: &str =
    "stopping: steps that are running get 10 seconds to end; Ctrl-C again stops at once";
/// The same for a command that downloads.
pub const STOPPING_BUILD: &str = "stopping: what was downloaded stays in the cache";
/// The same for a command that only writes files.
pub const STOPPING: &str = "stopping: no incomplete file is left behind";
/// The same for tests in a cluster.
pub const STOPPING_TESTS: &str = "stopping: the tests end, and their namespaces are deleted";
/// The same for a command that only runs commands on hosts.
pub const STOPPING_COMMAND: &str = "stopping: kubexm ends what it started on the hosts";
/// The same for a command that pushes to a registry.
pub const STOPPING_PUSH: &str = "stopping: what was pushed stays in the registry";

/// Watches for signals from now on. The first one stops the command, and `stopping` is reported. The
/// second one ends the program at once.
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
            events.warn(
                WarningKind::Interruption,
                "signals cannot be watched: Ctrl-C ends kubexm at once",
            );
            return;
        };
        any(&mut signals).await;
        // The command may end at once, and its message is the last one.
        events.note(stopping);
        flag.cancel();
        any(&mut signals).await;
        let message = Message::new("stopped at once, in the middle of the work").hint(AGAIN);
        events.note(message.to_string());
        let kind = ErrorKind::Interrupted;
        let (code, _) = exit::code(kind);
        events.end(code, Some(kind), Some(message));
        end_connections();
        std::process::exit(code.into());
    });
    stop
}

async fn any(signals: &mut [Signal]) {
    let each = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
    futures_util::future::select_all(each).await;
}

/// Returns whether kubexm runs under nohup. Then it continues after its terminal was closed.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is signal 1: the lowest bit.
    mask.is_some_and(|mask| mask & 1 == 1)
}
