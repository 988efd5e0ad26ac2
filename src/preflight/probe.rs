//! Probes of servers outside the cluster: attempts with pauses, and how many run at the same time.

use std::time::Duration;

/// The pauses between the attempts of one probe. A server that is busy or restarts answers within seconds.
pub const PAUSES: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// The number of probes that run at the same time through one host. More of them make a slow server slower.
pub const PARALLEL: usize = 6;

/// Runs a probe until its result is final, at most once more than there are pauses. Returns the last result.
pub async fn repeat<T>(
    pauses: &[Duration],
    is_final: impl Fn(&T) -> bool,
    attempt: impl AsyncFn() -> T,
) -> T {
    for pause in pauses {
        let result = attempt().await;
        if is_final(&result) {
            return result;
        }
        tokio::time::sleep(*pause).await;
    }
    attempt().await
}
