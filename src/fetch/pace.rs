//! The minimum speed of a transfer, and with it its maximum duration.

use kubexm_types::Message;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Time without a requirement, for slow starts and pauses that a server asks for.
const GRACE: Duration = Duration::from_secs(600);
/// Minimum average speed after that, in bytes per second. 64 transfers over a line of 1 MBit/s are faster.
const SLOWEST: u64 = 1024;

/// Measures a transfer. A server that sends a byte from time to time would otherwise hold a command for ever.
///
/// A transfer of `n` bytes takes at most 600 s and one second for each KiB.
#[derive(Debug)]
pub struct Pace {
    began: Instant,
    received: AtomicU64,
}

impl Pace {
    /// Starts the measurement.
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            received: AtomicU64::new(0),
        }
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// The transfer is too slow; returns the reason.
    pub fn advance(&self, bytes: u64) -> Result<(), Message> {
        let received = self.received.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let elapsed = self.began.elapsed();
        if elapsed <= GRACE + Duration::from_secs(received / SLOWEST) {
            return Ok(());
        }
        let slow = Message::new(format!(
            "the server sent only {received} bytes in {} s; kubexm expects at least {SLOWEST} bytes per second",
            elapsed.as_secs()
        ));
        Err(slow.hint("run the same command again to continue, or use a mirror (--mirrors)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_byte_from_time_to_time_ends_after_the_grace_and_a_slow_line_does_not() {
        let drip = Pace::start();
        let slow = Pace::start();
        let mut ended = None;
        for second in (0..7200).step_by(10) {
            tokio::time::advance(Duration::from_secs(10)).await;
            assert_eq!(slow.advance(12 * 1024), Ok(()), "after {second} s");
            if ended.is_none() && drip.advance(1).is_err() {
                ended = Some(second);
            }
        }
        assert_eq!(ended, Some(600));
    }
}
