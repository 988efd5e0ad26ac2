//! Positions with the same hash, chained from the newest back.

use super::history::hash4;

/// Matches reach back this far.
pub(super) const WINDOW: usize = 1 << 15;
/// The shortest match; so many bytes have a hash.
pub(super) const SHORTEST: usize = 4;
const HASH_BITS: u32 = 17;
/// Positions are moved down before they outgrow their 32 bits.
const LARGEST_BASE: usize = 1 << 28;

/// Chains through a window of [`WINDOW`].
pub(super) struct Chains {
    /// Newest position of each hash, and the one before of each position; plus `base`.
    heads: Vec<u32>,
    previous: Vec<u32>,
    /// Where the chain that was begun last goes on.
    first: usize,
    /// Added to positions in the tables: 0 is no position.
    base: usize,
}

impl Chains {
    pub(super) fn new() -> Self {
        Self {
            heads: vec![0; 1 << HASH_BITS],
            previous: vec![0; WINDOW],
            first: 0,
            base: 1,
        }
    }

    pub(super) fn clear(&mut self) {
        self.heads.fill(0);
        self.previous.fill(0);
        self.first = 0;
        self.base = 1;
    }

    /// Positions count from a window further on.
    pub(super) fn advance(&mut self) {
        self.base += WINDOW;
        if self.base > LARGEST_BASE {
            let down = self.base - 1;
            for position in self.heads.iter_mut().chain(&mut self.previous) {
                *position = position.saturating_sub(down as u32);
            }
            self.first = self.first.saturating_sub(down);
            self.base = 1;
        }
    }

    /// As if much had been written before.
    #[cfg(test)]
    pub(super) fn nearly_too_long(&mut self) {
        self.base = LARGEST_BASE - WINDOW;
    }

    /// Enters a position; gives the entry of the newest before it with its hash.
    #[inline]
    pub(super) fn insert(&mut self, window: &[u8], position: usize) -> usize {
        let head = &mut self.heads[hash(&window[position..])];
        let before = *head;
        self.previous[position % WINDOW] = before;
        *head = (position + self.base) as u32;
        before as usize
    }

    /// Enters a position, and begins its chain.
    #[inline]
    pub(super) fn begin(&mut self, window: &[u8], position: usize) {
        self.first = self.insert(window, position);
    }

    /// The first position of the chain that was begun last.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        self.first.checked_sub(self.base)
    }

    /// The position in the chain before this one.
    #[inline]
    pub(super) fn before(&self, position: usize) -> Option<usize> {
        (self.previous[position % WINDOW] as usize).checked_sub(self.base)
    }

    /// The newest position that has the hash of these bytes.
    #[inline]
    pub(super) fn newest(&self, bytes: &[u8]) -> Option<usize> {
        (self.heads[hash(bytes)] as usize).checked_sub(self.base)
    }
}

#[inline]
fn hash(bytes: &[u8]) -> usize {
    match bytes.first_chunk() {
        Some(bytes) => hash4::<HASH_BITS>(u32::from_le_bytes(*bytes).into()),
        None => 0,
    }
}
