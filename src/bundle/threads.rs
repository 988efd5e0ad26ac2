//! Work on several threads.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the number of threads that this machine runs at once.
pub fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Returns the result of a thread that was joined.
///
/// # Errors
/// The thread returned an error, or it panicked.
pub fn ended<T>(joined: std::thread::Result<io::Result<T>>) -> io::Result<T> {
    let failed = |_| Err(io::Error::other("a thread has failed"));
    joined.unwrap_or_else(failed)
}

/// Applies `work` to each item on `threads` threads. The results are in the order of completion.
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
