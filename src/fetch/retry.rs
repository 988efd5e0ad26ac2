//! Retries of failed requests.

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::FetchError;

/// Maximum number of attempts without progress.
pub(super) const TRIES: u32 = 5;
/// Maximum `Retry-After` that kubexm waits for. It gives up if a server asks for more.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// Maximum pause between attempts without a `Retry-After`.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// Why an attempt failed: worth a retry after the requested time, or final.
#[derive(Debug)]
pub(super) enum Failure {
    Again(Box<FetchError>, Option<Duration>),
    Final(Box<FetchError>),
}

impl Failure {
    pub fn last(error: FetchError) -> Self {
        Self::Final(Box::new(error))
    }

    pub fn again(error: FetchError) -> Self {
        Self::Again(Box::new(error), None)
    }

    /// Whether the server or the connection caused the failure, and not this machine.
    pub fn is_of_a_server(&self) -> bool {
        let (Self::Again(error, _) | Self::Final(error)) = self;
        error.is_of_a_server()
    }

    pub fn error(self) -> FetchError {
        match self {
            Self::Again(error, _) | Self::Final(error) => *error,
        }
    }
}

/// Counts attempts and waits between them. The pauses get longer. They are random, so that requests that
/// failed at the same time are not repeated at the same time.
pub(super) struct Tries {
    left: u32,
    pause: Duration,
}

impl Tries {
    /// Creates a counter with this number of attempts.
    pub fn new(tries: u32) -> Self {
        Self {
            left: tries,
            pause: Duration::from_millis(200),
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// No attempt is left or the failure is final; returns the failure.
    pub async fn wait(&mut self, failure: Failure) -> Result<(), FetchError> {
        self.left = self.left.saturating_sub(1);
        let (error, asked) = match failure {
            Failure::Again(error, asked) if self.left > 0 => (error, asked),
            other => return Err(other.error()),
        };
        if asked.is_some_and(|asked| asked > LONGEST_WAIT) {
            return Err(*error);
        }
        tracing::debug!(%error, ?asked, "trying again");
        let wait = match asked {
            // Not earlier than requested, and not all requests at the same time.
            Some(asked) => asked + self.pause.mul_f64(chance() / 4.0),
            None => self.pause.mul_f64(0.5 + chance() / 2.0),
        };
        tokio::time::sleep(wait).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    /// Resets the counter after progress.
    pub fn start_over(&mut self) {
        *self = Self::new(TRIES);
    }
}

/// Returns a random number from 0 to 1; 1 if the system has no source of randomness.
fn chance() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

/// Parses `Retry-After`: seconds or a date (RFC 9110, section 10.2.3).
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = OffsetDateTime::parse(text, &Rfc2822).ok()?;
    let wait = date - OffsetDateTime::now_utc();
    // A date in the past means no wait.
    Some(wait.try_into().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str) -> Option<Duration> {
        let headers = [(RETRY_AFTER, text.parse().unwrap())];
        retry_after(&headers.into_iter().collect())
    }

    #[test]
    fn both_forms_of_retry_after_are_understood() {
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let soon = OffsetDateTime::now_utc() + Duration::from_secs(90);
        let soon = soon.format(&Rfc2822).unwrap().replace("+0000", "GMT");
        let wait = after(&soon).unwrap().as_secs();
        assert!((85..=90).contains(&wait), "{soon}: {wait}");
        for wrong in ["", "soon", "-5", "99999999999999999999999"] {
            assert_eq!(after(wrong), None, "{wrong}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_not_asked_before_its_retry_after() {
        let error = || FetchError::resolve("busy");
        let again = |seconds| Failure::Again(Box::new(error()), Some(Duration::from_secs(seconds)));
        let began = tokio::time::Instant::now();
        let mut tries = Tries::new(3);
        tries.wait(again(60)).await.unwrap();
        assert!(began.elapsed() >= Duration::from_secs(60));
        assert!(Tries::new(3).wait(again(3600)).await.is_err());
        tries.wait(Failure::again(error())).await.unwrap();
        assert!(tries.wait(Failure::again(error())).await.is_err());
        assert!(Tries::new(3).wait(Failure::last(error())).await.is_err());
    }
}
