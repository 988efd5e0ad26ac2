//! Limits of concurrent requests per host, and pauses that a host requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use url::Url;

/// Default number of concurrent connections per host: 16 files in 4 ranges each. If a host answers that it
/// is overloaded, the number is halved.
pub const CONNECTIONS: usize = 64;
/// Minimum number of concurrent requests, also for hosts that refuse repeatedly.
const FEWEST: usize = 2;
/// Refusals within this time count as one.
const ONE_REASON: Duration = Duration::from_secs(1);

/// The request limiters of all hosts.
#[derive(Clone)]
pub(super) struct HostLimiters {
    connections: usize,
    hosts: Arc<Mutex<BTreeMap<String, Arc<HostLimiter>>>>,
}

/// The request limiter of one host.
pub(super) struct HostLimiter {
    state: Mutex<State>,
    free: Notify,
}

struct State {
    limit: usize,
    used: usize,
    slowed: Option<Instant>,
    closed_until: Option<Instant>,
}

/// The permission for one concurrent request.
pub(super) struct Permit(Arc<HostLimiter>);

impl HostLimiters {
    /// Creates limiters with this number of concurrent requests.
    pub fn new(connections: usize) -> Self {
        Self {
            connections,
            hosts: Arc::default(),
        }
    }

    /// Returns the limiter for the host of an address.
    pub fn for_url(&self, url: &Url) -> Arc<HostLimiter> {
        let host = url.host_str().unwrap_or_default();
        let name = format!("{host}:{}", url.port_or_known_default().unwrap_or(0));
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter = hosts
            .entry(name)
            .or_insert_with(|| Arc::new(HostLimiter::new(self.connections)));
        Arc::clone(limiter)
    }
}

impl HostLimiter {
    fn new(limit: usize) -> Self {
        Self {
            state: Mutex::new(State {
                limit,
                used: 0,
                slowed: None,
                closed_until: None,
            }),
            free: Notify::new(),
        }
    }

    /// Waits for a permission; waiting requests are served in order.
    pub async fn acquire(self: &Arc<Self>) -> Permit {
        loop {
            let freed = self.free.notified();
            tokio::pin!(freed);
            // Registered before the check, so that a release between check and wait is not missed.
            freed.as_mut().enable();
            match self.try_acquire() {
                Ok(permit) => return permit,
                Err(Some(opens)) => tokio::time::sleep_until(opens.into()).await,
                Err(None) => freed.await,
            }
        }
    }

    /// Returns a permission, or the end of the pause that the host requested.
    fn try_acquire(self: &Arc<Self>) -> Result<Permit, Option<Instant>> {
        let mut state = self.state();
        if let Some(until) = state.closed_until.filter(|until| *until > Instant::now()) {
            return Err(Some(until));
        }
        if state.used >= state.limit {
            return Err(None);
        }
        state.used += 1;
        Ok(Permit(Arc::clone(self)))
    }

    /// Halves the number of concurrent requests. No request starts for the time `wait`, if the host gave
    /// one.
    pub fn slow_down(&self, wait: Option<Duration>) {
        let mut state = self.state();
        // Many concurrent requests are refused for the same reason; this counts once.
        if state.slowed.is_none_or(|last| last.elapsed() > ONE_REASON) {
            state.slowed = Some(Instant::now());
            state.limit = (state.limit.min(state.used) / 2).max(FEWEST);
        }
        if let Some(wait) = wait {
            let until = Instant::now() + wait;
            state.closed_until = Some(state.closed_until.map_or(until, |other| other.max(until)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.state().used -= 1;
        self.0.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_limit_get_in_and_the_first_comes_first() {
        let limiters = HostLimiters::new(2);
        let url = Url::parse("https://dl.example/a").unwrap();
        let limiter = limiters.for_url(&url);
        let other = limiters.for_url(&Url::parse("https://other.example/").unwrap());
        let first = limiter.acquire().await;
        let _second = limiters.for_url(&url).acquire().await;
        let _elsewhere = other.acquire().await;
        let waiting = limiter.acquire();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        let _third = waiting.await;
        assert!(limiter.try_acquire().is_err());
    }

    #[tokio::test]
    async fn a_host_that_is_busy_gets_half_and_its_peace() {
        let limiters = HostLimiters::new(8);
        let limiter = limiters.for_url(&Url::parse("https://dl.example/").unwrap());
        let mut permits = Vec::new();
        for _ in 0..8 {
            permits.push(limiter.acquire().await);
        }
        limiter.slow_down(Some(Duration::from_millis(150)));
        permits.clear();
        let began = Instant::now();
        for _ in 0..4 {
            permits.push(limiter.acquire().await);
        }
        assert!(began.elapsed() >= Duration::from_millis(150));
        assert!(limiter.try_acquire().is_err());
        assert_eq!(limiter.state().limit, 4);
        limiter.slow_down(None);
        assert_eq!(limiter.state().limit, 4, "one reason counted twice");
        for _ in 0..9 {
            limiter.state().slowed = None;
            limiter.slow_down(None);
        }
        assert_eq!(limiter.state().limit, FEWEST);
    }
}
