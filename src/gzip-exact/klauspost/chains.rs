//! Positions with the same hash, linked from the newest to the oldest.

use super::history::hash4;

/// Maximum distance of a match in bytes.
pub(super) const WINDOW: usize = 1 << 15;
/// Length of the shortest match in bytes; a hash covers as many bytes.
pub(super) const SHORTEST: usize = 4;
const HASH_BITS: u32 = 17;
/// Positions are reduced before they exceed 32 bits.
const LARGEST_BASE: usize = 1 << 28;

/// Chains through a window of [`WINDOW`] bytes.
pub(super) struct Chains {
    /// The newest position of each hash, and for each position the one before it with the same
    /// hash; plus `base`.
    heads: Vec<u32>,
    previous: Vec<u32>,
    /// Next position of the chain that was started last.
    first: usize,
    /// Added to the positions in the tables, so that 0 means "no position".
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

    /// Moves the window: positions count from its new start.
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

    /// Sets the state as after a long stream.
    #[cfg(test)]
    pub(super) fn nearly_too_long(&mut self) {
        self.base = LARGEST_BASE - WINDOW;
    }

    /// Inserts a position. Returns the entry of the previous position with the same hash.
    #[inline]
    pub(super) fn insert(&mut self, window: &[u8], position: usize) -> usize {
        let head = &mut self.heads[hash(&window[position..])];
        let before = *head;
        self.previous[position % WINDOW] = before;
        *head = (position + self.base) as u32;
        before as usize
    }

    /// Inserts a position and starts its chain.
    #[inline]
    pub(super) fn begin(&mut self, window: &[u8], position: usize) {
        self.first = self.insert(window, position);
    }

    /// Returns the first position of the chain that was started last.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        self.first.checked_sub(self.base)
    }

    /// Returns the position before this one in the chain.
    #[inline]
    pub(super) fn before(&self, position: usize) -> Option<usize> {
        (self.previous[position % WINDOW] as usize).checked_sub(self.base)
    }

    /// Returns the newest position with the hash of these bytes.
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
