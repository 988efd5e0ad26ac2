//! Ctrl-C for commands that have something to put in order before they end.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that the first SIGINT or SIGTERM cancels; the second ends the program at once.
pub fn on_signal() -> CancellationToken {
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
        ) else {
            // Without a handler the signals end the program, as they do by default.
            return;
        };
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if stop.is_cancelled() {
                std::process::exit(1);
            }
            stop.cancel();
        }
    });
    token
}
