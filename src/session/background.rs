//! Runs blocking work outside the async runtime.

use crate::CommandError;

/// Runs work that reads and writes files on a thread of its own.
pub async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CommandError> + Send + 'static,
) -> Result<T, CommandError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(CommandError::defect)?
}
