//! The same work on many things at once.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many threads this machine runs at once.
pub fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// What a thread ended with that was waited for.
///
/// # Errors
/// Its own, or that it panicked.
pub fn ended<T>(joined: std::thread::Result<io::Result<T>>) -> io::Result<T> {
    let failed = |_| Err(io::Error::other("a thread has failed"));
    joined.unwrap_or_else(failed)
}

/// What `work` makes of each item, in the order in which it was done; on so many threads.
pub fn each<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(item);
                    if let Ok(mut results) = results.lock() {
                        results.push(result);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_default()
}
