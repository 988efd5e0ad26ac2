//! A weighted semaphore that grants permits in a fixed order. It limits the memory of threads that
//! compress frames at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Grants permits with the numbers 0, 1, 2, … in this order. Several permits exist at once as long as
/// their weights fit.
pub struct OrderedSemaphore {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The number of the permit that is granted next.
    next: usize,
    /// The weight that is not in use.
    free: usize,
    /// Whether no more permits are granted.
    closed: bool,
}

/// The right to work. Dropping it returns its weight to the semaphore.
pub struct Permit<'a> {
    semaphore: &'a OrderedSemaphore,
    weight: usize,
}

impl OrderedSemaphore {
    /// Creates a semaphore with this total weight.
    pub fn new(weight: usize) -> Self {
        let state = State {
            next: 0,
            free: weight,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Waits for the permit `number`. Returns `None` after [`close`](Self::close). A weight above the
    /// total waits forever.
    pub fn take(&self, number: usize, weight: usize) -> Option<Permit<'_>> {
        let waits =
            |state: &mut State| !state.closed && (state.next != number || state.free < weight);
        let state = self.changed.wait_while(self.state(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        state.next += 1;
        state.free -= weight;
        self.changed.notify_all();
        Some(Permit {
            semaphore: self,
            weight,
        })
    }

    /// Closes the semaphore. Pending and future calls to [`take`](Self::take) return `None`.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.semaphore.state();
        state.free += self.weight;
        // A thread that panics does not take its later permits, for which others would wait forever.
        state.closed |= std::thread::panicking();
        drop(state);
        self.semaphore.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn permits_are_granted_in_order_within_the_total_weight() {
        let (semaphore, at_work) = (OrderedSemaphore::new(2), AtomicUsize::new(0));
        let begun = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in (0..12).rev() {
                let (semaphore, at_work, begun) = (&semaphore, &at_work, &begun);
                scope.spawn(move || {
                    let weight = 1 + number % 2;
                    let permit = semaphore.take(number, weight).unwrap();
                    let others = at_work.fetch_add(weight, Ordering::SeqCst);
                    assert!(others + weight <= 2, "{number}");
                    begun.lock().unwrap().push(number);
                    std::thread::yield_now();
                    at_work.fetch_sub(weight, Ordering::SeqCst);
                    drop(permit);
                });
            }
        });
        // Two threads that hold permits at once may record themselves in either order.
        let begun = begun.into_inner().unwrap();
        assert!(begun.iter().enumerate().all(|(at, n)| at.abs_diff(*n) <= 1));
    }

    #[test]
    fn closing_ends_pending_calls() {
        let semaphore = OrderedSemaphore::new(1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| semaphore.take(1, 1).is_none());
            semaphore.close();
            assert!(waiting.join().unwrap());
        });
    }
}
