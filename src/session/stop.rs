//! How commands react when the user stops them.

use std::future::Future;

use crate::CommandError;
use kubexm_engine::plan::GRACE;

pub use kubexm_engine::plan::{Hopeless, Stop};

/// What to do after a command that was stopped or failed.
pub const AGAIN: &str = "run the same command again to go on";

/// Ends the connections that other processes hold for this one, before it ends in the middle of its work.
pub fn end_connections() {
    kubexm_host::openssh::end_all();
}

/// Runs work that changes no host; cancels it when the user stops the command.
pub async fn unless_stopped<T>(
    stop: &Stop,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    tokio::select! {
        result = work => result,
        () = stop.cancelled() => Err(CommandError::interrupted("stopped before any host was touched").hint(AGAIN)),
    }
}

/// Runs work that ends by itself when the user stops the command. Returns `None` if it does not end
/// within [`GRACE`].
pub async fn in_time<T>(stop: &Stop, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        result = work => Some(result),
        () = async { stop.cancelled().await; tokio::time::sleep(GRACE).await } => None,
    }
}
