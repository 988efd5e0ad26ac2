//! Who works next, where several threads take turns and memory is for few at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Turns with numbers from 0 on. They begin in this order; several go on at once as long as their shares
/// fit.
pub struct OrderedSemaphore {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The number that begins next.
    next: usize,
    /// Shares that nobody has.
    free: usize,
    /// Whether nobody begins any more.
    closed: bool,
}

/// A turn. Its shares are free again when it is dropped.
pub struct Permit<'a> {
    turns: &'a OrderedSemaphore,
    shares: usize,
}

impl OrderedSemaphore {
    /// With so many shares.
    pub fn new(shares: usize) -> Self {
        let state = State {
            next: 0,
            free: shares,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Waits for a turn; none where nobody begins any more. No turn may want more than all shares.
    pub fn take(&self, number: usize, shares: usize) -> Option<Permit<'_>> {
        let waits =
            |state: &mut State| !state.closed && (state.next != number || state.free < shares);
        let state = self.changed.wait_while(self.state(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        state.next += 1;
        state.free -= shares;
        self.changed.notify_all();
        Some(Permit {
            turns: self,
            shares,
        })
    }

    /// Lets nobody begin any more: who waits, waits in vain.
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
        let mut state = self.turns.state();
        state.free += self.shares;
        // Whoever panics does not take the turns that were its own.
        state.closed |= std::thread::panicking();
        drop(state);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn turns_begin_in_order_and_share_what_there_is() {
        let (turns, at_work) = (OrderedSemaphore::new(2), AtomicUsize::new(0));
        let begun = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in (0..12).rev() {
                let (turns, at_work, begun) = (&turns, &at_work, &begun);
                scope.spawn(move || {
                    let shares = 1 + number % 2;
                    let turn = turns.take(number, shares).unwrap();
                    let others = at_work.fetch_add(shares, Ordering::SeqCst);
                    assert!(others + shares <= 2, "{number}");
                    begun.lock().unwrap().push(number);
                    std::thread::yield_now();
                    at_work.fetch_sub(shares, Ordering::SeqCst);
                    drop(turn);
                });
            }
        });
        // Two that go on at once may say so in either order.
        let begun = begun.into_inner().unwrap();
        assert!(begun.iter().enumerate().all(|(at, n)| at.abs_diff(*n) <= 1));
    }

    #[test]
    fn who_waits_in_vain_is_told() {
        let turns = OrderedSemaphore::new(1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(1, 1).is_none());
            turns.close();
            assert!(waiting.join().unwrap());
        });
    }
}
